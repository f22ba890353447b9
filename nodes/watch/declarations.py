"""What the metrics of nodes mean, from actors to the monitor; agents declare their own."""

from __future__ import annotations

from boonta.agents.metrics import Metric
from boonta.nodes.watch.health import PREFIX
from boonta.nodes.watch.rules import RULES

COUNTERS = (
    Metric(
        "env_steps",
        "Steps of environments, over all actors and their slots.",
        "env steps",
        "rising as long as the program runs",
    ),
    Metric("frames", "Frames of the emulator: env steps times the frames that an action is repeated for.", "frames"),
    Metric(
        "updates",
        "Updates of the learner; of a population, those of one member.",
        "updates",
        "rising as long as the program runs",
    ),
    Metric(
        "episodes",
        "Episodes that actors have finished.",
        "episodes",
        "rising; none for long: episodes don't end, see episode_steps",
    ),
    Metric("sequences", "Sequences that actors have written to the table.", "sequences", "rising with env_steps"),
    Metric(
        "eval_episodes",
        "Episodes or games that evaluators have finished.",
        "episodes",
        "rising in steps, with each evaluation",
    ),
    Metric(
        "inferences",
        "Batches that inference nodes have acted on.",
        "batches",
        "rising with env_steps, by up to a batch's slots at once",
    ),
    Metric(
        "reanalyzed_steps",
        "Steps whose search reanalyzers have made again.",
        "steps",
        "rising, at the ratio to env_steps that the agent asks for",
    ),
    Metric(
        "reanalyzed_sequences",
        "Sequences that reanalyzers have written to their table.",
        "sequences",
        "rising, at the ratio to sequences that the agent asks for",
    ),
    Metric("seconds", "Age of the program, over all its lives; --stop.seconds counts it.", "seconds"),
)
RATES = (
    Metric("env_steps_per_s", "Env steps since the row before.", "env steps/s", "steady once everything is compiled"),
    Metric(
        "frames_per_s",
        "Frames since the row before.",
        "frames/s",
        "steady, env_steps_per_s times the repeats of an action",
    ),
    Metric("updates_per_s", "Updates since the row before.", "updates/s", "steady once everything is compiled"),
)
EPISODES = (
    Metric("return", "Mean return of the last 100 episodes that actors finished, exploring.", "return", "rising"),
    Metric("return_se", "Standard error of that mean.", "return", "small beside the differences that you want to see"),
    Metric("return_episodes", "Number of episodes in that mean.", "episodes"),
    Metric("return_start", "Mean return of the run's first 100 episodes.", "return"),
    Metric(
        "episode_steps",
        "Mean length of the last 100 episodes.",
        "env steps",
        "growing where surviving counts, falling where reaching a goal does",
    ),
    Metric(
        "episode/<name>",
        "Mean over the last 100 episodes of a number that the environment gives at their end, such as is_success.",
    ),
    Metric("acme/<name>", "What a part of Acme's, such as an actor's loop, has logged or counted last."),
)
EVALUATION = (
    Metric("eval_return", "Mean return of the last evaluation.", "return", "rising, and at least near return"),
    Metric(
        "eval_return_se",
        "Standard error of that mean.",
        "return",
        "small beside the differences that you want to see; else more --evaluation.episodes",
    ),
    Metric("eval_return_min", "The least return of the last evaluation.", "return", "rising with eval_return"),
    Metric("eval_cut", "Episodes of the last evaluation that reached its most steps and were cut.", "episodes", "0"),
    Metric(
        "eval_episode/<name>",
        "Mean of such a number over the episodes of the last evaluation, without those that were cut.",
        healthy="near episode/<name>, or better",
    ),
    Metric("eval_version", "Updates that the evaluated params had.", "updates", "rising with updates, in steps"),
    Metric(
        "eval_started",
        "Updates that the params have whose evaluation has begun.",
        "updates",
        "rising with updates, in steps",
    ),
    Metric(
        "eval_age",
        "Updates since those of the last evaluation.",
        "updates",
        "at most eval_age_allowed, where that is given",
    ),
    Metric("eval_age_allowed", "The most that may be, by --evaluation.max-age.", "updates"),
    Metric("arena/elo", "Rating of the newest params; the first opponent has 0.", "Elo", "rising"),
    Metric(
        "arena/<opponent>/elo", "Rating of a fixed opponent.", "Elo", "steady; it is measured again with each match"
    ),
    Metric("arena/<opponent>/win", "Share of games won.", healthy="rising"),
    Metric(
        "arena/<opponent>/draw",
        "Share of games drawn.",
        healthy="rising against a strong opponent, where losing is what is learned to avoid",
    ),
    Metric("arena/<opponent>/loss", "Share of games lost.", healthy="falling"),
    Metric(
        "arena/<opponent>/loss_first",
        "Share of games lost of those in which the agent moved first.",
        healthy="falling, and near loss_second unless moving first counts",
    ),
    Metric(
        "arena/<opponent>/loss_second",
        "Share of games lost of those in which the agent moved second.",
        healthy="falling",
    ),
)
LEARNER = (
    Metric(
        "policy_lag",
        "Mean number of updates between the params that acted and those that learn from it: the data's age.",
        "updates",
        "steady: 0 for PPO; 1 to 10 for IMPALA, which corrects for more up to policy_lag_allowed; of replay tables any",
    ),
    Metric(
        "policy_lag_max",
        "The same for the batch's oldest step.",
        "updates",
        "at most policy_lag_allowed; few times policy_lag",
    ),
    Metric("policy_lag_allowed", "The most that the agent's tables allow.", "updates"),
    Metric(
        "stale_sequences",
        "Sequences that the learner left out, since they were older than the agent allows (max_staleness).",
        "sequences",
        "0 while no node dies, if max_staleness is 0; else few",
    ),
    Metric("priority", "Mean priority of an update's sequences.", healthy="falling with the value error"),
    Metric(
        "priority_max",
        "The largest priority of an update's sequences.",
        healthy="steady; a rare outlier takes the draws from all others",
    ),
    Metric("batch_share/<table>", "Share of the batch's sequences that comes from a table.", healthy="near the wanted"),
    Metric("batch_share_wanted/<table>", "The share that the agent asks for.", healthy="constant"),
    Metric(
        "target_age/<table>",
        "Mean age of the targets that a table's sequences carry.",
        "updates",
        "steady; rising as fast as updates: reanalyzers have stopped",
    ),
    Metric(
        "start_s",
        "Time from the start of the learner's process to its first update.",
        "seconds",
        "below a minute; its parts say what takes long",
    ),
    Metric(
        "start_s/<phase>",
        "The part of that which its process spent on imports, on connecting to servers and other hosts, and on each "
        "activity of the learner's thread.",
        "seconds",
        "compiling is the largest",
    ),
    Metric(
        "reused",
        "Compiled programs that the learner's process took from the cache in the run's folder until then.",
        healthy="few at the first start, most after a resumption",
    ),
    Metric("reused_s", "Time that this saved.", "seconds", "most of what compiling took at the first start"),
    Metric("compile_s", "Time to compile the fused program.", "seconds", "below a minute, and only once"),
    Metric("compile_s/<part>", "Time to compile a part of it.", "seconds", "the rounds take the longest"),
)
TABLES = (
    Metric(
        "<table>/size",
        "Sequences that a table holds; of several replay servers each, on average.",
        "sequences",
        "growing to the table's max_size, then constant; of a queue, at most queue_size",
    ),
    Metric(
        "<table>/inserted",
        "Sequences written to a table; of several replay servers to each.",
        "sequences",
        "rising with sequences",
    ),
    Metric(
        "<table>/sampled",
        "Sequences drawn from a table; of several replay servers from each.",
        "sequences",
        "rising with updates, by a batch for each",
    ),
    Metric("<table>/samples_per_insert", "How often a sequence is drawn.", healthy="near the agent's setting"),
)
PROCESSES = (
    Metric("rss_mb/<node>", "Resident memory of the node's process.", "MB", "steady once the table is full"),
    Metric(
        "share/<group>/<activity>",
        "Share of time that a group's threads have spent on an activity since the row before, a mean over its nodes. "
        "What a status line calls waits are the shares of activities that begin with waiting_for.",
        healthy="the one who waits least holds up the others",
    ),
)
POPULATION = (
    Metric("members", "Members of a population."),
    Metric("members_collapsed", "Members whose learning has collapsed.", healthy="0"),
    Metric("diverged", "Members whose loss is no longer finite.", healthy="0"),
    Metric("member", "Number of the member, in members.jsonl."),
    Metric("seed", "Seed of the member, in members.jsonl."),
)
HEALTH = tuple(
    Metric(PREFIX + rule.name.replace(" ", "_"), f"Whether the rule holds, 1 or 0. If it does: {rule.advice}.", "", "0")
    for rule in RULES
)
METRICS = (*COUNTERS, *RATES, *EPISODES, *EVALUATION, *LEARNER, *TABLES, *PROCESSES, *POPULATION, *HEALTH)
