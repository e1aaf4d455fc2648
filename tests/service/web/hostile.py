"""Fills a store with texts that would be markup and scripts, and turn the direction of writing."""

import json

from kernelwright.campaign.event import CandidateJudged, FunctionPlanned, ModelRemarked, TaskEnded
from kernelwright.evaluator import Task
from kernelwright.evaluator.evaluation import Mismatch, Status
from kernelwright.metal.diagnostic import Diagnostic
from kernelwright.store import KernelStore, NewTrial, Rank, TaskSummary
from kernelwright.store.model_call import ModelCall

ATTACK = (
    "\u202e"
    '</script><script>window.pwned=1</script><img src=x onerror="window.pwned=1">'
    "'\"--><svg onload=window.pwned=1>&lt;b&gt;<a href=javascript:window.pwned=1>x</a>"
)


def fill(store: KernelStore, known: KernelStore, candidate_id: str) -> str:
    """Copy a candidate with every text of others' replaced; return the campaign's id."""
    detail = known.show(candidate_id)
    old = known.campaign(detail.candidate.campaign_id)
    run = store.begin_campaign(name=ATTACK, spec=old.spec, environment=old.environment)
    task = Task(detail.graph, ATTACK)
    store.keep_task(task, signature=ATTACK, campaign_id=run.id, function=ATTACK)
    kernel = detail.program.kernels[0]
    source = f'{kernel.source}\n// {ATTACK}\n/* {ATTACK} */ "{ATTACK}"'
    bad = detail.program.model_copy(
        update={"kernels": (kernel.model_copy(update={"source": source, "header": ATTACK}),)}
    )
    parent = None
    for program in (detail.program, bad):
        new_trial = NewTrial(run.id, task, program, ATTACK, ATTACK, ATTACK, parent)
        trial = store.add_trial(new_trial, signature=ATTACK)
        store.lease(trial.id)
        evaluation = detail.evaluations[0].evaluation.model_copy(
            update={
                "program": program.id,
                "summary": ATTACK,
                "diagnostics": (Diagnostic(message=ATTACK, source_line=ATTACK),),
                "mismatches": (Mismatch(output=0, words=ATTACK, shapes=(ATTACK,), case=ATTACK),),
                "bound": ATTACK,
            }
        )
        store.record(trial.id, evaluation, rank=Rank(kind="predicted", value=1.0))
        parent = program.id
    summary = TaskSummary(
        id=task.fingerprint, name=ATTACK, signature=ATTACK, dtype="float32", shapes=ATTACK
    )
    for event in (
        FunctionPlanned(
            function=ATTACK, inputs=ATTACK, nodes=1, tasks=(summary,), left=(), author=ATTACK
        ),
        CandidateJudged(
            task_id=task.fingerprint,
            candidate_id=candidate_id,
            status=Status.CORRECT,
            summary=ATTACK,
            rank=None,
            reused=False,
            leads=True,
        ),
        ModelRemarked(sentence=ATTACK),
        TaskEnded(task_id=task.fingerprint, reason=ATTACK),
    ):
        store.log(run.id, type(event).__name__, event.model_dump_json())
    store.log(run.id, ATTACK[:60], ATTACK)
    _converse(store, known, run.id, task.fingerprint)
    store.end_campaign(run.id, "finished", elapsed_s=1.0)
    return run.id


def _converse(store: KernelStore, known: KernelStore, run_id: str, task_id: str) -> None:
    for recorded in known.browse.calls_about(task_id):
        call, outcome = recorded.call, recorded.outcome
        assert outcome is not None
        request = _poisoned(json.loads(call.request))
        assert isinstance(request, dict)
        given = {
            **call.model_dump(),
            "campaign_id": run_id,
            "parent_id": None,
            "request": json.dumps(request),
        }
        store.dialogue.begin_call(ModelCall.model_validate(given))
        reply = json.dumps(_poisoned(json.loads(outcome.reply)))
        store.dialogue.finish_call(call.id, outcome.model_copy(update={"reply": reply}))


_WORDS = ("text", "system", "context", "request", "reasoning", "arguments", "name")


def _poisoned(value: object, name: str = "") -> object:
    """Put the attack into every text that a model or a prompt wrote."""
    if isinstance(value, dict):
        return {key: _poisoned(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [_poisoned(inner, name) for inner in value]
    return f"{value} {ATTACK}" if isinstance(value, str) and name in _WORDS else value
