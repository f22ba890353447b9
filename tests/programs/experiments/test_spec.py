"""A sweep's file: the runs that it stands for, their names, and what is wrong with it."""

from __future__ import annotations

import pathlib

import pytest

from boonta.programs.experiments import spec, values
from boonta.programs.tools import sweep
from boonta.programs.wiring.run import BadInput

ROOT = pathlib.Path(__file__).resolve().parents[3]
IMPALA = str(ROOT / "programs" / "impala.py")


def made(**content) -> spec.Spec:
    return spec.made({"program": IMPALA, **content}, "sweep.yaml")


def names(**content) -> list[str]:
    return [entry.name for entry in spec.entries(made(**content))]


def test_all_combinations_are_run_and_named_by_what_differs():
    entries = spec.entries(
        made(
            env=["catch", "minatar/breakout"],
            seeds=[3, 7],
            flags={"launch": "anakin", "stop.updates": 500},
            grid={"config.optimiser.learning_rate": [0.001, 0.01], "config.lstm-size": [None]},
        )
    )
    assert [entry.name for entry in entries] == [
        f"impala-{env}-learning-rate{rate}-lstm-sizeNone-seed{seed}"
        for seed in (3, 7)
        for env in ("catch", "minatar-breakout")
        for rate in ("0.001", "0.01")
    ]
    assert entries[0].arguments == [
        "catch", "--launch", "anakin", "--stop.updates", "500", "--config.optimiser.learning-rate", "0.001",
        "--config.lstm-size", "None", "--seed", "3"
    ]  # fmt: skip
    assert entries[0].differs == {"config.optimiser.learning-rate": 0.001, "config.lstm-size": None}


def test_programs_of_ours_have_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (entry,) = spec.entries(made(program="impala"))
    assert (entry.name, entry.program) == ("impala-seed0", IMPALA)
    with pytest.raises(BadInput, match="program impalla is no Python file in .*, nor .* ours: did you mean 'impala'"):
        spec.entries(made(program="impalla"))


def test_names_stay_when_seeds_environments_and_values_are_added():
    before = names(env="catch", seeds=2, grid={"a.rate": [1]})
    assert set(before) < set(names(env=["grid_world", "catch"], seeds=5, grid={"a.rate": [1, 2]}))


def test_variants_are_run_in_all_combinations_of_the_others():
    variants = [{"name": "gumbel"}, {"name": "puct", "config.search": "puct"}, {"config.search": "puct", "x": True}]
    entries = spec.entries(made(seeds=2, flags={"config.search": "gumbel"}, runs=variants))
    assert [entry.name for entry in entries] == [
        f"impala-{variant}-seed{seed}" for seed in (0, 1) for variant in ("gumbel", "puct", "search-puct-x")
    ]
    assert [entry.flags["config.search"] for entry in entries] == ["gumbel", "puct", "puct"] * 2


def test_flags_that_share_their_last_part_are_named_in_full():
    assert names(grid={"a.rate": [1], "b.rate": [2]}) == ["impala-a.rate1-b.rate2-seed0"]


def test_values_become_the_words_of_a_command_line():
    flags = {"a.b-c": False, "d": True, "e": [1, "x y"], "f": None, "g": 1e-05, "h": "z"}
    words = ["--a.no-b-c", "--d", "--e", "1", "x y", "--f", "None", "--g", "1e-05", "--h", "z"]
    assert values.words(flags) == words
    assert values.words(values.flags_of(words)) == words
    assert values.flags_of(["--a=1e-3", "--b_c", "-1"]) == {"a": 0.001, "b-c": -1}


@pytest.mark.parametrize("word", ["007", "010", "1:30", "0x10", "1_000", "~", "null", "on", "[1]", ".inf"])
def test_a_word_that_is_no_plain_number_reaches_a_run_as_it_was_given(word, tmp_path):
    assert values.words(values.flags_of(["--a", word, f"--b={word}"])) == ["--a", word, "--b", word]
    asked = sweep.Asked(tmp_path / "sweep.yaml", grid=(f"x={word},010", f"y={word}"))
    asked.what.write_text(f"program: {IMPALA}\nflags: {{z: 0x10}}\n")
    read = sweep.spec_of(asked, [])
    assert read.grid == {"x": [word, "010"], "y": [word]} and read.flags == {"z": 16}  # A file means what YAML says.


def test_plain_numbers_and_booleans_of_a_command_line_are_values():
    numbers = {"0": 0, "-3": -3, "+2": 2, "1.50": 1.5, ".5": 0.5, "2.": 2.0, "1e6": 1e6, "1E-3": 0.001, "1.0e+2": 100.0}
    read = {text: values.parsed(text) for text in numbers}
    assert read == numbers and list(map(type, read.values())) == list(map(type, numbers.values()))
    assert list(map(values.parsed, ["true", "True", "false", "False"])) == [True, True, False, False]


def test_a_file_is_read_with_numbers_as_python_writes_them(tmp_path):
    file = tmp_path / "sweep.yaml"
    file.write_text(
        f"program: {IMPALA}\nseeds: 2\ngrid: {{rate: [1e-3, 0.01]}}\n"
        "sample: {trials: 3, flags: {x: {low: 1e-4, high: 1, log: true}, y: [0, 128]}}\nslots: {number: 2, cores: 1}\n"
    )
    read = spec.read(file)
    assert read.grid == {"rate": [0.001, 0.01]} and read.slots.number == 2
    assert read.sample is not None and read.sample.flags == {"x": spec.Range(1e-4, 1, True), "y": [0, 128]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"seed": 3}, "sweep.yaml has 'seed', which is none of its keys: did you mean 'seeds'"),
        ({"slots": {"core": 1}}, "slots of sweep.yaml has 'core', which is none of its keys: did you mean 'cores'"),
        ({"seeds": "three"}, "seeds"),
        ({"retries": -1}, "retries is -1; it must be at least 0"),
        ({"members": 1}, "members is 1; it must be at least 2"),
        ({"sample": {"trials": 0, "flags": {"x": [1]}}}, "trials is 0"),
        ({"sample": {"trials": 1, "flags": {"x": {"low": 2, "high": 1}}}}, "low is 2 and high 1; low must be below"),
        ({"grid": {"rate": 3}}, "grid.rate"),
    ],
)
def test_a_file_that_is_no_sweeps_is_refused(content, message):
    with pytest.raises(BadInput, match=message):
        made(**content)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"program": str(ROOT / "programs" / "impalla.py")}, "is no Python file in .*did you mean 'impala.py'"),
        ({"grid": {"rate": [0.1, 1e-1]}}, "two runs have one folder, impala-rate0.1-seed0: '--rate 0.1 --seed 0' and"),
        ({"env": ["a/b", "a-b"]}, "two runs have one folder"),
        ({"seeds": [1, 1]}, "two runs have one folder"),
        ({"runs": [{"name": "x"}, {"name": "x", "rate": 1}]}, "two runs have one folder"),
        ({"runs": [{"name": "../x"}]}, r"runs has the name '\.\./x'"),
        ({"seeds": 0}, "that is no run at all"),
        ({"seeds": 10**9}, "that is 1,000,000,000 runs; a sweep has at most 10,000"),
        ({"program": "~nobody.of.this.name/x.py"}, "can't be found"),
        ({"seeds": [-1]}, "seeds has -1"),
        ({"flags": {"seed": 1}}, "flags has seed: give the seeds of all runs in seeds"),
        ({"grid": {"workdir": ["x"]}}, "grid has workdir: each run has its own folder"),
        ({"flags": {"a_b": 1, "a-b": 2}}, "flags has a-b twice"),
        ({"flags": {"rate": 1}, "grid": {"rate": [1]}}, "--rate is in grid and in flags or runs"),
        ({"grid": {"rate": []}}, r"grid has \[\] for rate"),
        ({"flags": {}, "grid": {"x": ["y" * 250]}}, "over 200 letters"),
    ],
)
def test_runs_that_can_not_be_are_refused(content, message):
    with pytest.raises(BadInput, match=message):
        names(**content)


@pytest.mark.parametrize("text", ["a: [", "- 1", "env: catch", ""])
def test_a_text_that_is_no_sweep(tmp_path, text):
    (tmp_path / "sweep.yaml").write_text(text)
    with pytest.raises(BadInput, match="sweep file .*sweep.yaml"):
        spec.read(tmp_path / "sweep.yaml")


@pytest.mark.parametrize(
    ("words", "message"), [(["catch"], "'catch' after -- is no flag"), (["--a", "1", "--a=2"], "--a is given twice")]
)
def test_words_that_are_no_flags(words, message):
    with pytest.raises(BadInput, match=message):
        values.flags_of(words)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("program: a\nseeds: 2\nprogram: b\n", "line 3, column 1: 'program' is given twice"),
        ("program: a\nflags: {x: 1, y: 2, x: 3}\n", "line 2, column 21: 'x' is given twice"),
        ("program: a\nflags: {x: 1, 'x': 3}\n", "line 2, column 15: 'x' is given twice"),
    ],
)
def test_a_key_that_is_given_twice_is_refused(tmp_path, text, message):
    (tmp_path / "sweep.yaml").write_text(text)
    with pytest.raises(BadInput, match=f"sweep.yaml can't be read: {message}$"):
        spec.read(tmp_path / "sweep.yaml")


def test_a_key_of_a_merged_mapping_may_be_given_again():
    text = "o: {p: &a {<<: &b {x: 1, y: 2}, x: 3}}\nq: {<<: *a, y: 4}\nr: {<<: *b}\n"
    assert values.load(text) == {"o": {"p": {"x": 3, "y": 2}}, "q": {"x": 3, "y": 4}, "r": {"x": 1, "y": 2}}
