// What a classifier says: its classes, and what each piece does to them.

/** The probabilities of the classes, with a mark at those of an earlier answer. */
function classBars(parent, now, before) {
  bars(parent, data.labels.map((name, i) => ({
    name, value: now.classes[i], says: percent(now.classes[i]), before: before?.classes[i],
  })));
}

function showClasses(now, before) {
  find("probabilities").replaceChildren();
  find("left").replaceChildren();
  classBars(find("probabilities"), now, before);
  if (before) addKey(find("probabilities"), "before the last change");
}

/** Leave out each piece in turn: what happens to the class that was found with all of them? */
async function leaveOut() {
  const { asked, classes } = shown;
  const best = classes.indexOf(Math.max(...classes));
  const places = asked.ids.slice(1, -1).map((_, i) => i + 1);
  const sentences = places.map(place => ({ ids: asked.ids.filter((_, i) => i !== place) }));
  const found = [];
  const answer = await model.ask("each", { sentences, off: asked.off }, told => {
    found[told.index] = told.found;
    find("left").textContent = `${found.length} of ${places.length} …`;
  });
  if (!answer.done || shown.asked !== asked) return;
  find("left").replaceChildren();
  add(find("left"), "p", { className: "soft" },
    `Change of “${data.labels[best]}” (${percent(classes[best])} with all tokens):`);
  bars(find("left"), places.map((place, i) => {
    const change = found[i][best] - classes[best];
    const now = found[i].indexOf(Math.max(...found[i]));
    const turns = now === best ? "" : ` → ${data.labels[now]}`;
    return { name: data.pieces[asked.ids[place]], value: change, says: signed(change) + turns };
  }), Math.max(...places.map((_, i) => Math.abs(found[i][best] - classes[best])), 0.1));
}
