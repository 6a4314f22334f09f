"""The command line ``mgp``. Commands import what they need when they run: ``mgp --help`` answers without PyTorch."""

from __future__ import annotations

import atexit
import gc
import os
import re
import sys

from manifoldgp._system.plain_text import one_line

_MISSING = "mgp: the command line needs typer and rich, which are not installed. Run: pip install 'manifoldgp[cli]'"
OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130

_COLLECTED_AFTER = 100_000
"""New objects after which Python looks for cycles: at its 700 a tenth of a start-up goes to finding none."""

_BRIEF = ("inspect", "predict", "score")
"""Commands whose products are small: BLAS's threads fall asleep at once there, instead of waiting busily for a tenth of a second."""


def main() -> None:
    """Run ``mgp`` and leave with its exit code. What goes wrong is told in one line, several faults of a table in one each; ``--debug``, anywhere, shows where it happened."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError:
        print(_MISSING, file=sys.stderr)
        raise SystemExit(FAILED) from None
    gc.set_threshold(_COLLECTED_AFTER)
    atexit.register(
        gc.freeze
    )  # else Python looks for cycles once more among all that pandas and NumPy are made of, before it ends
    debug = "--debug" in sys.argv
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    if arguments and arguments[0] in _BRIEF:
        os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")  # before NumPy is loaded, which reads it once
    try:
        raise SystemExit(_run(arguments))
    except KeyboardInterrupt:
        print("mgp: Interrupted.", file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None
    except BrokenPipeError:  # whoever read the output, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(FAILED) from None
    except Exception as error:
        if debug:
            raise
        from manifoldgp.cli._messages import in_options

        lines = getattr(error, "lines", ())  # of several faults, each in a line of its own
        told = "\n".join(map(one_line, lines)) or one_line(_explained(error))
        print(f"mgp: {in_options(told)}", file=sys.stderr)
        raise SystemExit(FAILED) from None


def _run(arguments: list[str]) -> int:
    """The exit code of a command; wrong usage is told in one line, too."""
    import typer

    from manifoldgp.cli._app import app_for

    arguments = arguments or ["--help"]
    try:
        code = app_for(arguments)(arguments, prog_name="mgp", standalone_mode=False)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except Exception as error:
        explain = getattr(error, "format_message", None)  # typer's errors of usage, whose classes it does not name, have it
        if explain is None:
            raise
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "mgp"
        told = one_line(explain()).replace("Value error, ", "")  # which pydantic puts in front
        print(f"{command}: {_sentence(told)} See: {command} --help", file=sys.stderr)
        return getattr(error, "exit_code", USAGE)
    return code if isinstance(code, int) else OK


def _explained(error: Exception) -> str:
    """What happened and what to do."""
    from manifoldgp.errors import ManifoldGPError

    message = str(error)
    if isinstance(error, ManifoldGPError):
        return message
    if isinstance(error, OSError):
        named = f"{error.filename}: {error.strerror}." if error.filename and error.strerror else message
        return named or type(error).__name__
    if _lacks_memory(error):
        notes = "".join(f" {note}" for note in getattr(error, "__notes__", ()))  # how many rows there were
        return (
            f"Not enough memory: {_wanted(message)}.{notes} "
            "Use fewer rows, --method sparse (with fewer --inducing points, if it was sparse), or a machine with more memory."
        )
    return f"Unexpected {type(error).__name__}: {message} Run the same with --debug to see where, and report it."


def _lacks_memory(error: Exception) -> bool:
    """Whether memory ran out; PyTorch says so by a RuntimeError on CPUs."""
    return isinstance(error, MemoryError) or (
        isinstance(error, (RuntimeError, ImportError)) and re.search(_NO_MEMORY, str(error)) is not None
    )


_NO_MEMORY = r"can't allocate memory|not enough memory|out of memory|Cannot allocate memory|cannot allocate memory|failed to map segment|bad_alloc"


def _wanted(message: str) -> str:
    """How much was asked for, as far as the message of PyTorch or NumPy tells.

    >>> _wanted("DefaultCPUAllocator: can't allocate memory: you tried to allocate 72000000000 bytes.")
    '72.0 GB more were wanted'
    >>> _wanted("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8000000 bytes.")
    '8.0 MB more were wanted'
    >>> _wanted("Unable to allocate 8.00 TiB for an array with shape (1048576, 1048576) and data type float64")
    '8.00 TiB more were wanted'
    """
    found = re.search(r"allocate (\d+) bytes|allocate ([\d.]+ (?:[KMGTP]i?B|bytes))", message)
    if found is None:
        return one_line(message).rstrip(".") or "no part of it says how much was wanted"
    if found[2]:
        return f"{found[2]} more were wanted"
    wanted = int(found[1])
    return f"{f'{wanted / 1e9:.1f} GB' if wanted >= 1e9 else f'{wanted / 1e6:.1f} MB'} more were wanted"


def _sentence(message: str) -> str:
    return message if message.endswith((".", "?", "!")) else message + "."
