"""A batch of each task in every step: the losses are added, or their gradients."""

from torch.utils.data import DataLoader


class ScriptSumOfLosses:
    def train_multitask(args):
        args = find_files(complete(args, MultitaskFlags), TASKS)
        sets = [read_set(name, args, "train") for name in ("sst", "para", "sts")]
        model, config = new_model(args)
        model.train()
        optimizer = AdamW(model.parameters(), lr=args.lr)
        for _ in range(args.epochs):
            loaders = [DataLoader(s, 4, shuffle=True, collate_fn=s.collate_fn) for s in sets]
            for sst, para, sts in zip(*loaders, strict=False):
                logits = model.predict_sentiment(*(sst[key] for key in SINGLE[:-1]))
                yes = model.predict_paraphrase(*(para[key] for key in PAIR[:-1])).flatten()
                scores = model.predict_similarity(*(sts[key] for key in PAIR[:-1])).flatten()
                total = F.cross_entropy(logits, sst["labels"])
                total = total + F.softplus(yes - 2 * yes * para["labels"]).mean()
                total = total + (scores / 5 - sts["labels"] / 5).square().mean()
                total.backward()
                optimizer.step()
                optimizer.zero_grad()
        save_model(model, optimizer, args, config, args.filepath)


class ScriptAccumulated:
    def train_multitask(args):
        args = find_files(complete(args, MultitaskFlags), TASKS)
        sets = {name: read_set(name, args, "train") for name in args.tasks}
        model, config = new_model(args)
        bert = {id(p) for p in model.bert.parameters()}
        slow = AdamW(model.bert.parameters(), lr=args.lr / 10)
        fast = AdamW([p for p in model.parameters() if id(p) not in bert], lr=args.lr)
        for _ in range(args.epochs):
            model.train()
            loaders = [DataLoader(s, 4, collate_fn=s.collate_fn) for s in sets.values()]
            for batches in zip(*loaders, strict=True):
                slow.zero_grad(set_to_none=False)
                fast.zero_grad(set_to_none=False)
                for name, batch in zip(sets, batches, strict=True):
                    keys = SINGLE if name == "sst" else PAIR
                    *inputs, labels = (batch[key] for key in keys)
                    outputs = getattr(model, HEADS[name])(*inputs)
                    LOSSES[name](outputs, labels).backward()
                slow.step()
                fast.step()
            model.eval()
        save_model(model, fast, args, config, args.filepath)
