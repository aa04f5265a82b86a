"""What can go wrong where the trees meet: references, delegations, plans, adoption."""

from __future__ import annotations

from bridge.foundation.errors import BridgeError


class InvalidPlan(BridgeError):
    """Raised when a plan file cannot be run; ``details["problems"]`` lists everything found, by line."""

    code = "invalid_plan"
    exit_status = 109
    summary = "A plan file cannot be run: its TOML, a key, a value or a dependency is wrong."
    default_hint = "Mend the lines named; docs/plan-file.md describes every key."


class ReferenceNotFound(BridgeError):
    """Raised when an evidence reference names no entry."""

    code = "reference_not_found"
    exit_status = 86
    summary = "An evidence reference names no entry."
    default_hint = "List the results of a session with: bridge task list --session SESSION"


class ReferenceNotAResult(BridgeError):
    """Raised when an evidence reference names an entry that is no worker's result."""

    code = "reference_not_a_result"
    exit_status = 87
    summary = "An evidence reference names an entry that is not a worker.result."
    default_hint = "Only the entry that bridge task show names as result_entry_id can be cited."


class ReferenceForeignSession(BridgeError):
    """Raised when an evidence reference names a result of a session that the asker does not belong to."""

    code = "reference_foreign_session"
    exit_status = 88
    summary = "An evidence reference names a result of another session."
    default_hint = "Cite results of the session that delegates."


class ReferenceNotOnActiveBranch(BridgeError):
    """Raised when an evidence reference names a result that the conversation has left behind."""

    code = "reference_not_on_active_branch"
    exit_status = 89
    summary = "An evidence reference names a result on a branch that is not the active one."
    default_hint = "Go back there with bridge goto, or cite another."


class ReferenceInvalidResult(BridgeError):
    """Raised when an evidence reference names a result that broke its contract."""

    code = "reference_invalid_result"
    exit_status = 90
    summary = "An evidence reference names a result whose status is invalid."
    default_hint = "Have the task done again; an invalid result can be read, but never cited."


class TooMuchEvidence(BridgeError):
    """Raised when a delegation cites more results, or more bytes, than one may."""

    code = "too_much_evidence"
    exit_status = 91
    summary = "A delegation cites more references, or more bytes of them, than one may."
    default_hint = "Cite fewer results, or have them summarised by a worker first."


class BaseUnavailable(BridgeError):
    """Raised when no commit can be named that a worker's worktree could be cut from."""

    code = "base_unavailable"
    exit_status = 92
    summary = "The delegating entry's stamp names no commit to start a worker from (no commit yet, or state unknown)."
    default_hint = "Make a first commit, or mend what makes the state unknown: bridge status"


class UncommittedWork(BridgeError):
    """Raised when a worker would start without work that is only in the parent's checkout."""

    code = "uncommitted_work"
    exit_status = 93
    summary = "The checkout has uncommitted work that a worker would not see."
    default_hint = "Commit it, or choose: --dirty carry takes it along, --dirty ignore leaves it out."


class TaskNotFound(BridgeError):
    """Raised when a reference names no delegation or plan."""

    code = "task_not_found"
    exit_status = 95
    summary = "A reference names no task."
    default_hint = "List them with: bridge task list"


class TaskAmbiguous(BridgeError):
    """Raised when a reference fits more than one delegation."""

    code = "task_ambiguous"
    exit_status = 96
    summary = "A reference fits more than one task; the details list them."
    default_hint = "Type more of the id, or PLAN/NAME."


class TaskStillOpen(BridgeError):
    """Raised when something is asked of a task that only a finished one can give."""

    code = "task_still_open"
    exit_status = 97
    summary = "The task has not ended yet."
    default_hint = "Wait for it, or cancel it: bridge task cancel TASK"


class TaskAlreadyEnded(BridgeError):
    """Raised when a task that has ended is to be cancelled."""

    code = "task_already_ended"
    exit_status = 98
    summary = "The task has ended; there is nothing to cancel."
    default_hint = "See how it ended: bridge task show TASK"


class NothingToAdopt(BridgeError):
    """Raised when a task has no commits that could be adopted, or no longer."""

    code = "nothing_to_adopt"
    exit_status = 99
    summary = "The task changed nothing, or its commits were adopted or discarded already."
    default_hint = "See what became of it: bridge task show TASK"


class AdoptionRefused(BridgeError):
    """Raised when a task's commits may not be adopted as its result stands."""

    code = "adoption_refused"
    exit_status = 100
    summary = "The task's result does not allow adoption (it did not complete), or no branch can take it."
    default_hint = "Look at it first: bridge task show TASK. Adopt all the same with --force."


class OutOfScopeWrites(AdoptionRefused):
    """Raised when a task changed paths that it was not to write, and nobody has decided to take them."""

    code = "out_of_scope_writes"
    exit_status = 100
    summary = "A task changed paths outside those it owns (or any, being read-only); details list them."
    default_hint = "Look at them: bridge task diff TASK. Take them all the same with --allow-out-of-scope."


class AdoptionCheckFailed(AdoptionRefused):
    """Raised when the command that checks the combined files does not end well."""

    code = "adoption_check_failed"
    exit_status = 100
    summary = "The check of the combined files failed; details hold its exit status, its log and the log's end."
    default_hint = "Read the log, mend what it shows, and adopt again."


class AdoptionConflict(BridgeError):
    """Raised when a task's commits do not merge into the branch."""

    code = "adoption_conflict"
    exit_status = 101
    summary = "A task's commits conflict with the branch; nothing was changed."
    default_hint = "Merge by hand from the task's ref, or discard it: bridge task discard TASK"


class DuplicateTask(BridgeError):
    """Raised when a delegation's result is recorded a second time."""

    code = "task_already_recorded"
    exit_status = 103
    summary = "A delegation's result is recorded already; a result is recorded once."
    default_hint = "Read it: bridge task show TASK"


class KindWithoutText(BridgeError):
    """Raised when plain text is offered for a kind of entry that has no field for it."""

    code = "kind_without_text"
    exit_status = 104
    summary = "Plain text was given for a kind of entry that no single text makes up; nothing was written."
    default_hint = "Give the payload as JSON: --payload FILE, or --payload - for standard input."


class PlanUnreadable(BridgeError):
    """Raised when a plan file cannot be read as text."""

    code = "plan_unreadable"
    exit_status = 105
    summary = "A plan file is missing, unreadable or not UTF-8; nothing was started."
    default_hint = "Name an existing TOML file: bridge run PLAN.toml"


class RunStopped(BridgeError):
    """Raised when a signal ended the run of a plan before all of it was done."""

    code = "run_stopped"
    exit_status = 106
    summary = "SIGTERM ended the run of a plan; its workers were ended and their results recorded."
    default_hint = "See what was done: bridge task list"


class TurnRunning(BridgeError):
    """Raised when a turn is to begin where another one is still running."""

    code = "turn_running"
    exit_status = 206
    summary = "Another turn is running where the conversation stands; nothing was sent."
    default_hint = "Wait for it, or go elsewhere first: /cd ENTRY, or bridge goto SESSION ENTRY"


class HarnessNotChosen(BridgeError):
    """Raised when nothing says which harness a chat should talk to."""

    code = "harness_not_chosen"
    exit_status = 207
    summary = "Nothing says which harness a chat should talk to: no option, no session's own, no setting."
    default_hint = "Name one: bridge chat --harness NAME. bridge doctor lists those that are installed."


class CheckpointInvalid(BridgeError):
    """Raised when an agent's answer is no checkpoint; ``details["fields"]`` lists what is wrong with it."""

    code = "checkpoint_invalid"
    exit_status = 203
    summary = "An agent's answer to the request for a checkpoint does not keep its contract; nothing was recorded."
    default_hint = "Ask again; schema/checkpoint/v1-answer.json says what is expected."


class CheckpointFailed(BridgeError):
    """Raised when no checkpoint came about after the agent was asked a second time; that is recorded."""

    code = "checkpoint_failed"
    exit_status = 94
    summary = "An agent gave no usable checkpoint in two answers; the failure is recorded, the conversation as it was."
    default_hint = "Go on, and try again later: /checkpoint. What the agent wrote is kept with the failure: bridge log"


class ImportUnreadable(BridgeError):
    """Raised when a file to be imported cannot be opened or read."""

    code = "import_unreadable"
    exit_status = 102
    summary = "A file to be imported is missing or cannot be read; nothing was written."
    default_hint = "Name a file that bridge export wrote, or - for standard input."


class NoRawLines(ImportUnreadable):
    """Raised when the transcript of a session is to be written again that was not made from one."""

    code = "no_raw_lines"
    exit_status = 102
    summary = "A session was not made from a transcript, so that there are no lines to write again."
    default_hint = "Export it in another form: bridge export SESSION --format jsonl"


class ImportSourceChanged(BridgeError):
    """Raised when a file was changed between being checked and being taken in."""

    code = "import_source_changed"
    exit_status = 107
    summary = "A file was changed while it was imported; nothing was written."
    default_hint = "Wait until nobody writes to it, then import it again."


class ControllerStopping(BridgeError):
    """Raised when something is to be started in a process that is about to end."""

    code = "controller_stopping"
    exit_status = 208
    summary = "The controller is about to end and starts nothing more; nothing was changed."
    default_hint = "Ask again; another controller starts on demand."


class EventCursorUnknown(BridgeError):
    """Raised when events are wanted from a cursor on that the store does not have."""

    code = "event_cursor_unknown"
    exit_status = 209
    summary = "The store has no event of that cursor: it is of another store, or the store was replaced."
    default_hint = "Begin anew: take sessions/snapshot and subscribe with its cursor."


class AgentNotFound(BridgeError):
    """Raised when no agent has an id."""

    code = "agent_not_found"
    exit_status = 210
    summary = "There is no agent of that id."
    default_hint = "List them with the method agents/list."


class ControllerRunning(BridgeError):
    """Raised when a controller is to be started where one runs already."""

    code = "controller_running"
    exit_status = 214
    summary = "A controller runs already for this state directory and database; it was left alone."
    default_hint = "Use it, or replace it: bridge serve --replace"


class ControllerBusy(BridgeError):
    """Raised when a controller is to be replaced or stopped while it has workers; ``details["workers"]`` names them."""

    code = "controller_busy"
    exit_status = 215
    summary = "The running controller has workers, which would be lost; it was left alone."
    default_hint = "Wait for them, or end them too: bridge serve --replace --cancel-workers"


class AgentRefused(BridgeError):
    """Base of what an agent is refused because of who it is; the classes share its exit status."""

    exit_status = 211


class AgentTokenRefused(AgentRefused):
    """Raised when an agent's token is worth nothing, or none can be had; ``details["reason"]`` says which."""

    code = "agent_token_refused"
    summary = "An agent's token is unknown, revoked, expired, or of a process that has ended; nothing was called."
    default_hint = "Start the agent through Bridge, or attach it anew: bridge mcp --attach SESSION"


class NoOpenDelegation(AgentRefused):
    """Raised when a result is handed in where none is expected."""

    code = "no_open_delegation"
    summary = "The session works on no task that is running, so there is no result to hand in; nothing was recorded."
    default_hint = "Only a worker hands in a result, while its task runs."


class ResultAlreadySubmitted(AgentRefused):
    """Raised when the attempt of a task has its result, or has used up its tries."""

    code = "result_already_submitted"
    summary = "The attempt has its result, or no try is left; what was handed in now was not recorded."
    default_hint = "End the work: nothing more is expected."


class SteeringRefused(BridgeError):
    """Base of what a running or ended worker cannot be steered to; the classes share its exit status."""

    exit_status = 204


class QuotaNotPaused(SteeringRefused):
    """Raised when the pause of a credential is to be lifted that has none."""

    code = "quota_not_paused"
    summary = "No pause holds for the credential; nothing was changed."
    default_hint = "See what is paused: bridge task list"


class ApprovalNotFound(SteeringRefused):
    """Raised when a reference names no request for approval."""

    code = "approval_not_found"
    summary = "A reference names no request for approval."
    default_hint = "List them with: bridge approvals"


class ApprovalNotPending(SteeringRefused):
    """Raised when a request for approval is answered that is not open any more; ``details["status"]`` says why."""

    code = "approval_not_pending"
    summary = "The request was answered already, timed out, or lapsed with its worker; nothing was changed."
    default_hint = "See what is open: bridge approvals"


class HarnessTakesNoMessages(SteeringRefused):
    """Raised when something is to be said to a worker whose harness cannot be told anything while it works."""

    code = "harness_takes_no_messages"
    summary = "The worker's harness cannot be told anything while it works; nothing was sent."
    default_hint = "Cancel it and try again with what it should know: bridge task retry TASK --feedback TEXT"


class TaskNotRunning(SteeringRefused):
    """Raised when something is said to a worker that has not been started."""

    code = "task_not_running"
    summary = "The task's worker has not been started, so that there is nobody to tell; nothing was sent."
    default_hint = "Wait for its start: bridge task list --open"


class NothingDecided(SteeringRefused):
    """Raised when a decision is to be replayed that was never made: the task waits, or ended before its turn."""

    code = "nothing_decided"
    summary = "Policy has not decided about the task, so there is nothing to replay."
    default_hint = "See where it stands: bridge task show TASK"


class RetryRefused(SteeringRefused):
    """Raised when a task cannot be tried again the way that was asked for; ``details["reason"]`` says which."""

    code = "retry_refused"
    summary = "The task cannot be tried again in this way; nothing was started."
    default_hint = "Look at it first: bridge task show TASK"


class RetryConflict(SteeringRefused):
    """Raised when what a worker did does not merge onto the commit that the next try is to start from."""

    code = "retry_conflict"
    summary = (
        "The work of the task conflicts with the commit to start from; details list the paths. Nothing was started."
    )
    default_hint = "Try again in the same worktree, without --onto, or adopt what there is and delegate anew."


class ControllerNeeded(SteeringRefused):
    """Raised when a worker is to go on after its command, and no resident controller can be had."""

    code = "controller_needed"
    summary = (
        "A worker that outlives the command needs a resident controller, and none can be had; nothing was started."
    )
    default_hint = 'Let it be started (bridge serve, or controller = "start"), or wait for the worker.'


class PlaceUnready(BridgeError):
    """Base of what keeps a worker's place from being made ready; the classes share its exit status."""

    exit_status = 205


class SetupFailed(PlaceUnready):
    """Raised when the setup of a worktree ends with an error or takes too long; ``details["log"]`` is its output."""

    code = "setup_failed"
    summary = "A command of the setup of a worker's worktree failed or took too long; the worker was not started."
    default_hint = "Read the log that the message names; the commands are in bridge.toml under [worktree]."


class NoFreePort(PlaceUnready):
    """Raised when there are not as many free ports as a worker is to get."""

    code = "no_free_port"
    summary = "Not enough free ports are left for a worker; it was not started."
    default_hint = "Wait until other workers have ended, or ask for fewer ports in bridge.toml."


class ConfinementRefused(PlaceUnready):
    """Raised when workers are to be confined without exception and this machine cannot, or cannot keep all of it."""

    code = "confinement_refused"
    summary = "Workers must be confined and this machine cannot confine them as asked; the worker was not started."
    default_hint = 'See bridge doctor; confinement = "auto" starts workers all the same, with a notice.'


class TransitionRefused(SteeringRefused):
    """Raised when a task is to go to a state that the one it is in does not lead to; somebody else was quicker."""

    code = "transition_refused"
    summary = "A task's state does not lead to the one asked for; somebody else has moved it on."
    default_hint = "Look where it stands: bridge task show TASK"
