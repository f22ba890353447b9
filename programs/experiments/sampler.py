"""Trials of a sweep, whose flags Optuna chooses; a trial that is worse than others ends early.

The trials and their results are kept in optuna.log, in the sweep's folder, so that another start goes on with them.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

from boonta.envs.base import suggest
from boonta.programs.experiments import curves, plan, spec
from boonta.programs.experiments.check import Member
from boonta.programs.experiments.plan import Job
from boonta.programs.experiments.scheduler import DONE, FAILED, PRUNED, Source, State
from boonta.programs.experiments.spec import Range, Sample, Spec
from boonta.programs.experiments.values import Value
from boonta.programs.wiring.run import BadInput
from boonta.programs.wiring.run_folder.state import GrowingRows, last_row

try:
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend
    from optuna.trial import TrialState
except ImportError as error:
    raise BadInput(f"a sweep with sample needs Optuna: pip install 'boonta-rl[sweep]' ({error})") from error

FILE = "optuna.log"
LOOK_EVERY_S = 2.0
UNCOUNTED = 4  # Number of first trials, which never end early.
COUNTERS = ("env_steps", "seconds", "updates")
NAME = "name"  # The user attribute with a trial's name, under which it is repeated if it was cut off.
GIVEN = ("program", "env", "seeds", "flags", "metric")  # What all trials of a study have in common.
ENDED = "ended"  # The user attribute with the stage and the cause of each of a trial's jobs.
STAGES = {TrialState.PRUNED: PRUNED, TrialState.FAIL: FAILED}  # Those of trials without that attribute.


@dataclasses.dataclass
class _Open:
    """A trial that goes on.

    Attributes:
      trial: Optuna's.
      jobs: the names of its jobs.
      ended: the states of its jobs that have ended, by name.
      reported: number of evaluations that Optuna has.
      worse: whether the trial is to end early.
      looked_at: when its evaluations were read last.
    """

    trial: Any
    jobs: list[str]
    ended: dict[str, State] = dataclasses.field(default_factory=dict)
    reported: int = 0
    worse: bool = False
    looked_at: float = 0.0


class Sampler(Source):
    """A source of the jobs of trials.

    Args:
      given: the sweep.
      folder: its folder.
      command: the command line that starts it, which is recorded.

    Raises:
      BadInput: the sweep has more than one program or environment, a grid or variants; or runs at the ends of the
        ranges can't work.
    """

    def __init__(self, given: Spec, folder: pathlib.Path, command: Sequence[str]):
        assert given.sample is not None
        if len(given.programs) > 1 or len(given.envs) > 1 or given.runs or given.grid:
            raise BadInput("sample is for one program and one env, without grid and runs: its trials are compared")
        self._spec, self._sample, self._folder, self._command = given, given.sample, folder, command
        first, *others = (spec.entries(given, flags, "probe") for flags in probes(given.sample))
        self._together = len(first) > 1 == len(plan.plan(given, first, folder))
        apart = dataclasses.replace(given, populations=False)
        plan.plan(apart, [dataclasses.replace(e[0], name=f"probe{i}") for i, e in enumerate(others)], folder)
        self._among = {flag: _distribution(among) for flag, among in given.sample.flags.items()}
        self._rows: dict[str, GrowingRows] = {}  # The rows of trials that go on, by the names of their jobs.
        self._open: dict[str, _Open] = {}  # Trials by the names of their jobs.
        self._jobs: list[Job] = []  # The jobs of all trials so far.
        self._names: list[str] = []  # The names of these trials.
        self._settled: dict[str, tuple[str, str]] = {}  # By job, of trials of earlier starts.

    def begin(self) -> None:
        """Opens the record of trials. Trials that were cut off are repeated under their names."""
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        storage = JournalStorage(JournalFileBackend(str(self._folder / FILE)))
        pruner = optuna.pruners.MedianPruner(UNCOUNTED) if self._sample.prune else optuna.pruners.NopPruner()
        self._study = optuna.create_study(
            storage=storage, study_name="sweep", direction="maximize", load_if_exists=True, pruner=pruner
        )
        before = self._study.get_trials(deepcopy=False)
        self._study.sampler = optuna.samplers.TPESampler(seed=self._sample.seed + len(before))
        newest = {trial.user_attrs[NAME]: trial for trial in before if NAME in trial.user_attrs}
        self._names = list(newest)
        self._require_alike(before)
        for name, trial in newest.items():
            if trial.state == TrialState.RUNNING:
                # It is queued before it is told below that it has failed: a kill between the two loses no trial.
                self._study.enqueue_trial(trial.params, user_attrs={NAME: name})
            elif trial.state != TrialState.WAITING:
                ended = trial.user_attrs.get(ENDED, {})
                for job in self._make(name, _flags(trial)):
                    stage, cause = ended.get(job.name, (STAGES.get(trial.state, DONE), ""))
                    self._settled[job.name] = stage, cause
        for trial in before:
            if trial.state == TrialState.RUNNING:
                self._study.tell(trial.number, state=TrialState.FAIL)
        self._earlier = list(self._jobs)

    def _require_alike(self, before: Sequence[Any]) -> None:
        """Raises BadInput if earlier trials had other settings, or have drawn a flag from another distribution."""
        settings = vars(self._spec) | {"metric": self._sample.metric}
        given = json.loads(json.dumps({name: settings[name] for name in GIVEN}))
        for name, value in self._study.user_attrs.items():
            if value != given[name]:
                raise BadInput(
                    f"{name} is {given[name]}; the trials in {self._folder / FILE} had {value}, and only such "
                    "trials compare with them: choose another --workdir"
                )
        for name in given.keys() - self._study.user_attrs.keys():
            self._study.set_user_attr(name, given[name])
        for trial in before:
            if trial.params.keys() - self._among:
                raise BadInput(
                    f"sample has {list(self._among)}, and its trials in {self._folder / FILE} have "
                    f"{list(trial.params)}: choose another --workdir"
                )
            for flag, drawn in trial.distributions.items():
                try:
                    optuna.distributions.check_distribution_compatibility(drawn, self._among[flag])
                except ValueError as error:
                    raise BadInput(
                        f"sample has other values for {flag} than its trials in {self._folder / FILE}, {drawn}: choose "
                        "another --workdir"
                    ) from error

    def settled(self, job: Job) -> tuple[str, str]:
        return self._settled.get(job.name, ("", ""))

    def take(self) -> Sequence[Job]:
        """The jobs of the next trial; at first, those of trials that have ended."""
        if self._earlier:
            earlier, self._earlier = self._earlier, []
            return earlier
        waiting = self._study.get_trials(deepcopy=False, states=(TrialState.WAITING,))
        if not waiting and len(self._names) >= self._sample.trials:
            return ()
        trial = self._study.ask(self._among)
        name = trial.user_attrs.get(NAME)
        if name is None:
            name = f"trial{len(self._names)}"
            self._names.append(name)
            trial.set_user_attr(NAME, name)
        jobs = self._make(name, _flags(trial))
        opened = _Open(trial, [job.name for job in jobs])
        self._open |= {job.name: opened for job in jobs}
        names = (*COUNTERS, curves.VERSION, self._sample.metric)
        self._rows |= {job.name: GrowingRows(self._folder / job.name, names) for job in jobs}
        return jobs

    def _make(self, name: str, flags: Mapping[str, Value]) -> list[Job]:
        """The jobs of a trial, which sweep.json gets, too."""
        entries = spec.entries(self._spec, flags, name)
        if self._together:
            members: tuple[Member, ...] = tuple({"seed": entry.seed} for entry in entries)
            jobs = [Job(entries[0].name.rpartition("-")[0], tuple(entries), members)]  # The name without the seed.
        else:
            jobs = [Job(entry.name, (entry,)) for entry in entries]
        self._jobs += jobs
        plan.write(self._folder, self._command, self._spec, self._jobs)
        return jobs

    def ended(self, state: State) -> None:
        """Reports a trial to Optuna once all of its jobs have ended. Those have failed that give the trial no value."""
        trial = self._open.get(state.job.name)
        if trial is None:
            return
        trial.ended[state.job.name] = state
        if len(trial.ended) < len(trial.jobs):
            return
        last = {name: values[-1] for name, values in zip(trial.jobs, self._report(trial)) if values}
        for name, each in trial.ended.items():
            del self._rows[name]
            if each.stage == DONE and (why := self._why_useless(name, name in last)):
                each.stage, each.cause = FAILED, why
        trial.trial.set_user_attr(ENDED, {name: (each.stage, each.cause) for name, each in trial.ended.items()})
        stages = {each.stage for each in trial.ended.values()}
        if PRUNED in stages:
            self._study.tell(trial.trial, state=TrialState.PRUNED)
        elif FAILED in stages:
            self._study.tell(trial.trial, state=TrialState.FAIL)
        else:
            self._study.tell(trial.trial, statistics.fmean(last.values()))

    def prunes(self, job: Job) -> bool:
        """Whether a job's trial is worse than the median of others, at an evaluation that all its runs have reached."""
        trial = self._open[job.name]
        if trial.worse or time.monotonic() - trial.looked_at < LOOK_EVERY_S:
            return trial.worse
        self._report(trial)
        trial.looked_at = time.monotonic()
        return trial.worse

    def _why_useless(self, name: str, has_value: bool) -> str:
        """Why a job that is done gives its trial no value; empty if it does.

        A member of a population that has diverged would have failed as a process of its own. The population's metrics
        are means over the others.
        """
        row, metric = last_row(self._folder / name), self._sample.metric
        if diverged := row.get("diverged"):
            return f"{diverged:,.0f} of its members have diverged"
        if has_value:
            return ""
        if metric in row:
            return f"its {metric} isn't finite, or not that of an evaluation"
        known = [name for name, value in row.items() if value is not None and name not in (*COUNTERS, curves.VERSION)]
        return f"has no {metric}; " + (suggest(metric, known) if known else "it has measured nothing")

    def _report(self, trial: _Open) -> list[list[float]]:
        """Reports the evaluations that all jobs of a trial have reached to Optuna; returns each job's values."""
        found = [values_of(self._rows[name].look(), self._sample.metric) for name in trial.jobs]
        for step in range(trial.reported, min(map(len, found))):
            trial.trial.report(statistics.fmean(values[step] for values in found), step + 1)
            trial.reported = step + 1
            trial.worse = trial.worse or trial.trial.should_prune()
        return found


def probes(sample: Sample) -> list[dict[str, Value]]:
    """Flags that together have both ends of each range, and each value of each list."""
    ends = {
        flag: [among.low, among.high] if isinstance(among, Range) else among for flag, among in sample.flags.items()
    }
    most = max(map(len, ends.values()))
    return [{flag: among[min(i, len(among) - 1)] for flag, among in ends.items()} for i in range(most)]


def values_of(rows: Sequence[curves.Row], metric: str) -> list[float]:
    """A metric at each evaluation of a run, or in each row if evaluations don't measure it."""
    return curves.curve_of(curves.moments(rows), metric).values.tolist()


def _distribution(among: Range | list[Value]) -> Any:
    """The distribution from which Optuna draws a flag."""
    if not isinstance(among, Range):
        return optuna.distributions.CategoricalDistribution([json.dumps(value) for value in among])
    if isinstance(among.low, int) and isinstance(among.high, int):
        return optuna.distributions.IntDistribution(among.low, among.high, log=among.log)
    return optuna.distributions.FloatDistribution(among.low, among.high, log=among.log)


def _flags(trial: Any) -> dict[str, Value]:
    """The flags that a trial has drawn."""
    return {flag: json.loads(drawn) if isinstance(drawn, str) else drawn for flag, drawn in trial.params.items()}
