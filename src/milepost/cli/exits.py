"""The exit codes, and which error has which.

A line says what failed, on which object, why, and what to do next. Scripts may rely on the codes.

    milepost: data directory data is in use by process 4711; stop it, or choose another --data
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import partial

from milepost import errors


class Exit(IntEnum):
    OK = 0
    FAILED = 1
    """Something Milepost did not foresee; a bug worth reporting."""
    USAGE = 2
    """A wrong command, flag, setting or configuration file."""
    CONNECT = 3
    """The broker cannot be reached."""
    AUTH = 4
    """No right, or no valid credentials."""
    NOT_FOUND = 5
    CONFLICT = 6
    """It is taken already: the data directory, the port, the name."""
    DATA = 7
    """Files that are damaged, or of a newer format."""
    STORAGE = 8
    """The disk or the file system said no."""
    TROUBLE = 9
    """A group that needs an operator; only for `progress --check`."""
    INTERRUPTED = 130
    CLOSED_PIPE = 141


class CommandFailed(Exception):
    """A command's own failure, told to the user as it stands."""

    def __init__(self, message: str, code: Exit) -> None:
        super().__init__(message)
        self.code = code


# The first row whose class fits; what to do next is added to the error's own words.
_ROWS: tuple[tuple[type[Exception], Exit, str], ...] = (
    (errors.NotFound, Exit.NOT_FOUND, ""),
    (errors.InvalidInput, Exit.USAGE, ""),
    (errors.AlreadyExists, Exit.CONFLICT, ""),
    (errors.DataDirectoryLocked, Exit.CONFLICT, "stop it, or choose another --data"),
    (errors.WrongDataDirectory, Exit.CONFLICT, ""),
    (
        errors.UnknownFormat,
        Exit.DATA,
        "nothing was touched: run the version that wrote it, or a newer one",
    ),
    (
        errors.CorruptData,
        Exit.DATA,
        "nothing was removed: keep the files, restore from a copy, and report it",
    ),
    (errors.WrongBucket, Exit.CONFLICT, ""),
    (errors.BucketUnusable, Exit.STORAGE, ""),
    (errors.Fenced, Exit.STORAGE, ""),
    (errors.DiskFull, Exit.STORAGE, "free some space and start again"),
    (errors.PersistenceError, Exit.STORAGE, "look at the disk, then start again"),
    (errors.NotAuthenticated, Exit.AUTH, "say who you are with --token or a context"),
    (errors.NotAuthorized, Exit.AUTH, "ask an administrator for the right"),
    (errors.ConnectError, Exit.CONNECT, ""),
    (
        errors.Timeout,
        Exit.CONNECT,
        "look whether the broker is well: `milepost brokers healthcheck`",
    ),
    (errors.MessageTooBig, Exit.USAGE, "--chunking cuts it into chunks"),
    (errors.TopicTerminated, Exit.CONFLICT, ""),
    (errors.PreconditionFailed, Exit.CONFLICT, ""),
    (errors.Busy, Exit.CONFLICT, ""),
    (errors.NotAllowed, Exit.USAGE, ""),
    (errors.MilepostError, Exit.FAILED, ""),
    (FileNotFoundError, Exit.NOT_FOUND, ""),
    # Of a socket: no disk says that.
    (
        TimeoutError,
        Exit.CONNECT,
        "look whether the broker is well: `milepost brokers healthcheck`",
    ),
    (ConnectionError, Exit.CONNECT, ""),
    (OSError, Exit.STORAGE, ""),
    # A payload, a file or an answer larger than this machine has room for.
    (MemoryError, Exit.STORAGE, "name less, or a smaller file"),
)


# A broker's refusal on the wire, by Pulsar's number for it.
_REFUSED_ROLES: dict[int, Callable[[str], errors.MilepostError]] = {
    errors.NotAuthenticated.wire_code: partial(errors.NotAuthenticated, "wire"),
    errors.NotAuthorized.wire_code: errors.NotAuthorized,
}


def explain(error: BaseException) -> tuple[str, Exit]:
    """One line for a person, without the program's name, and the code to exit with."""
    if isinstance(error, CommandFailed):
        return one_line(str(error)), error.code
    if isinstance(error, UnicodeEncodeError):
        # A terminal gives bytes that are no text as lone surrogates; no name may have them.
        return f"{error.object[:80]!a}: not UTF-8", Exit.USAGE
    if isinstance(error, errors.BrokerError) and error.code in _REFUSED_ROLES:
        error = _REFUSED_ROLES[error.code](error.message)
    for kind, code, remedy in _ROWS:
        if isinstance(error, kind):
            what = _os_error(error) if isinstance(error, OSError) else str(error)
            what = what or "out of memory"
            if kind is errors.ConnectError:
                remedy = connect_step(what, "--url")
            return one_line(f"{what}; {remedy}" if remedy else what), code
    return (
        one_line(
            f"a bug in Milepost: {type(error).__name__}: {error}; "
            "MILEPOST_DEBUG=1 shows where; please report it"
        ),
        Exit.FAILED,
    )


def connect_step(said: str, flag: str) -> str:
    """What to do about a broker that cannot be reached, by what was said of it; `flag` names it."""
    reason = said.lower()
    if "certificate required" in reason:
        return "show a certificate with --tls-cert and --tls-key"
    if "certificate" in reason:
        return (
            "name the authority that signed it with --tls-trust-cert-path, or the host as it does"
        )
    if "wrong_version_number" in reason or "closed during the tls handshake" in reason:
        return f"that port may be one without TLS: look at {flag}"
    if "no such host" in reason:
        return f"look at the name in {flag}, or at the context"
    if "speaks http here" in reason:
        return f"that is an HTTP port: look at {flag}"
    if "speaks tls here" in reason:
        return f"that port wants TLS: look at {flag}"
    if "closed before an answer" in reason:
        return f"that port may want TLS, or be another one: look at {flag}"
    return f"start a broker with `milepost serve`, or name another with {flag} or --context"


def _os_error(error: OSError) -> str:
    what = error.strerror or str(error)
    return f"{error.filename}: {what}" if error.filename else what


def one_line(text: str) -> str:
    """An error may quote what a person or a file said: it must not break or paint the line."""
    shown = " ".join(text.split("\n"))
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in shown)
