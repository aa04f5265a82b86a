"""The edge: the one place where what was raised becomes words on stderr and an exit status."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import typer

from bridge.cli.crash import write_report
from bridge.cli.errors import InternalError, Interrupted, UsageInvalid
from bridge.cli.output import BROKEN_PIPE_STATUS, Output, ReaderGone
from bridge.foundation.errors import BridgeError


def exit_status_for(
    run: Callable[[], int], *, output: Output, words: Sequence[str], environment: Mapping[str, str]
) -> int:
    """Run a command line to its end and return the exit status.

    Parameters
    ----------
    run
        Parses and runs the command; returns its exit status.
    output
        Where errors are told.
    words
        The words after the program's name, for the crash report.
    environment
        Says where crash reports go.
    """
    try:
        return _run_to_end(run, output)
    except ReaderGone:
        output.abandon_stdout()
        return BROKEN_PIPE_STATUS
    except BridgeError as error:
        told = error
    except typer.TyperException as error:
        told = _usage_error(error)
    except (KeyboardInterrupt, typer.Abort):
        told = Interrupted("Interrupted.")
    except BrokenPipeError as error:
        # Help is printed by typer and ends here; a pipe that a command wrote to itself is a fault.
        if output.stdout_fails():
            output.abandon_stdout()
            return BROKEN_PIPE_STATUS
        told = _crash(error, output, words, environment)
    except Exception as error:  # noqa: BLE001  # the outermost guard: what nobody foresaw becomes a crash report
        told = _crash(error, output, words, environment)
    output.error(told.to_json())
    if output.stdout_fails():
        output.abandon_stdout()
    return told.exit_status


def _run_to_end(run: Callable[[], int], output: Output) -> int:
    try:
        status = run()
    except typer.Exit as stop:
        status = stop.exit_code
    output.finish()
    return status


def _usage_error(error: typer.TyperException) -> UsageInvalid:
    message = " ".join(error.format_message().split())
    context = getattr(error, "ctx", None)
    if context is None:
        return UsageInvalid(message)
    usage = " ".join(context.get_usage().split()).removeprefix("Usage: ")
    return UsageInvalid(message, hint=f"See: {context.command_path} --help", details={"usage": usage})


def _crash(error: Exception, output: Output, words: Sequence[str], environment: Mapping[str, str]) -> InternalError:
    report = write_report(error, words, environment)
    name = type(error).__name__
    if report.path is not None:
        return InternalError(
            f"Bridge itself failed ({name}). A crash report was written to {str(report.path)!r}.",
            details={"exception": name, "report": str(report.path)},
        )
    output.show(report.text)
    return InternalError(
        f"Bridge itself failed ({name}), and the crash report could be written nowhere.",
        hint="Please report it with the text above; look through it first.",
        details={"exception": name, "report": None, "report_text": report.text},
    )
