"""One task after the other in every epoch, a step for each batch."""

from torch.utils.data import DataLoader


class Script:
    def train_multitask(args):
        args = find_files(with_defaults(args, MultitaskFlags))
        train_sets = {name: read_set(name, args, "train") for name in TASKS}
        loaders = {
            name: DataLoader(rows, args.batch_size, shuffle=True, collate_fn=rows.collate_fn)
            for name, rows in train_sets.items()
        }
        dev_sets = {name: read_set(name, args, "dev") for name in TASKS}
        dev_loaders = {name: loop.evaluation_loader(rows, 8) for name, rows in dev_sets.items()}
        model, config = new_model(args)
        optimizer = AdamW([p for p in model.parameters() if p.requires_grad], lr=args.lr)
        best = -1.0
        for epoch in range(args.epochs):
            model.train()
            for name, loader in loaders.items():
                for batch in loader:
                    optimizer.zero_grad()
                    labels = batch["labels"]
                    if name == "sst":
                        out = model.predict_sentiment(batch["token_ids"], batch["attention_mask"])
                        loss = F.cross_entropy(out, labels)
                    else:
                        ids_1, mask_1 = batch["token_ids_1"], batch["attention_mask_1"]
                        ids_2, mask_2 = batch["token_ids_2"], batch["attention_mask_2"]
                    if name == "para":
                        logits = model.predict_paraphrase(ids_1, mask_1, ids_2, mask_2)
                        loss = F.binary_cross_entropy_with_logits(logits, labels.float())
                    if name == "sts":
                        scores = model.predict_similarity(ids_1, mask_1, ids_2, mask_2)
                        loss = F.mse_loss(scores, labels)
                    loss.backward()
                    optimizer.step()
            score = evaluate(model, dev_loaders, torch.device("cpu"))["overall"]
            if score > best:
                best = score
                save_model(model, optimizer, args, config, args.filepath)
