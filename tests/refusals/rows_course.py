"""What the commands for staff and for experiments refuse."""

from row import Row, written

HAND_IN = written("hand-ins/a.zip", "")
FULL = written("full/of/others", "")
EXPERIMENT = "research.experiments.run a.toml"
RUN = '[run]\nname = "a"\nseeds = [1]\n'

ROWS = [
    Row("course.grade nobody --gold data --out out", "nobody is not a folder; name the one"),
    Row("course.grade hand-ins/a.zip --gold data --out out", "is not a folder", HAND_IN),
    Row("course.grade hand-ins --gold data --out hand-ins/x", "holds hand-ins/x, which", HAND_IN),
    Row("course.grade one --gold data --out out", "is one submission", written("one/bert.py", "")),
    Row("course.grade data --gold model --out out", "has no submission in it"),
    Row("course.grade hand-ins --gold model --out out", "no labelled file", HAND_IN),
    Row("course.viva hand-ins --seed 7 --out full", "full is there already: name a new", FULL),
    Row("course.handout --out file/minbert", "file/minbert cannot be made", written("file", "")),
    Row("course.handout --out full", "is there and is not a git repository", FULL),
    Row("course.gradescope.build --gold model --out out", "no labelled file"),
    Row(EXPERIMENT, "is not a TOML", written("a.toml", "[run\n")),
    Row(EXPERIMENT, "kind 'x' is not one of", written("a.toml", f'{RUN}kind = "x"\n')),
    Row(EXPERIMENT, "keyword argument 'flag'", written("a.toml", f"{RUN}[flag]\n")),
    Row(f"{EXPERIMENT} --only fast", "--only fast: there are a", written("a.toml", RUN)),
    Row("research.experiments.report nothing", "no results of nothing in"),
]
