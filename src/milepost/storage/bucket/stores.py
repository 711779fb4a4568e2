"""Buckets by their address: `s3://`, `gs://`, `az://`, and `file://` for a folder of this machine.

Object stores are reached with obstore. Credentials are found where the store's users have them: in the
variables of the environment, or with the role of the machine. obstore repeats nothing by itself: a request
that it repeated would be reported as one that met another writer's object.
"""

from __future__ import annotations

import errno
import json
import os
import re
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from milepost.clock import since_boot
from milepost.errors import BucketUnusable
from milepost.storage.bucket.address import (
    check_endpoint,
    check_environment,
    check_region,
    check_url,
)
from milepost.storage.bucket.folder import FolderObjects
from milepost.storage.bucket.objects import (
    FOREIGN_KEY,
    NO_CREDENTIALS,
    Absent,
    Create,
    Delete,
    Done,
    Failed,
    Found,
    Get,
    Listed,
    Objects,
    Put,
    Refused,
    Replace,
    Reply,
    Request,
    Scan,
    pause_s,
)
from milepost.storage.files import Buffer, NotAnswered

if TYPE_CHECKING:
    from obstore.store import ObjectStore

# A request that has no answer by then has failed; it may be carried out all the same.
_REQUEST_S: Final = 20
_CONNECT_S: Final = 5
# A read of a ledger is tried this often before the reader hears of it, and not again after so long.
_READS: Final = 8
_READ_S: Final = 10.0
# What each store's users have in the environment.
_VARIABLES: Final = {
    "s3": "AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL",
    "gs": "GOOGLE_SERVICE_ACCOUNT",
    "az": "AZURE_STORAGE_ACCOUNT_NAME",
}
# How obstore tells an error: the request, how long it took, what became of it, and the body of the answer.
_REQUEST: Final = re.compile(r"Error performing ([A-Z]+ \S+) in \S+ - (.*)", re.DOTALL)
_STATUS: Final = re.compile(r"Server returned non-2xx status code: (\d+ [^:\n]*)")
_CODE: Final = re.compile(r"<Code>([^<]+)</Code>")
_MESSAGE: Final = re.compile(r"<Message>([^<]+)</Message>")
_DENIED: Final = ("401", "403")
# Where a machine of a cloud asks for its role: that is tried where there are no credentials.
_ROLES: Final = ("://169.254.169.254/", "://metadata.google.internal/")
# What obstore says of a list with a key that it cannot tell. One that names it comes behind.
_FOREIGN: Final = "Encountered object with invalid path: "
# What stores say if the bucket itself is not there, where a request for one object would find it absent.
_NO_BUCKET: Final = frozenset({"NoSuchBucket", "ContainerNotFound"})


def open_objects(
    url: str, *, endpoint: str = "", region: str = "", only_reads: bool = False
) -> Objects:
    """The bucket, or the folder in one, that an address names. Nothing is asked of it yet.

    With `only_reads` nothing is prepared for writing.
    """
    check_url(url)
    check_endpoint(endpoint)
    check_region(region)
    check_environment(url, os.environ)
    parts = urlsplit(url)
    if parts.scheme == "file":
        try:
            return FolderObjects(Path(unquote(parts.path)), only_reads=only_reads)
        except OSError as error:
            raise BucketUnusable(
                f"{url}: the folder cannot be used: {error.strerror}; make it, or give the broker "
                "the right to write there"
            ) from error
    from obstore.store import from_url

    options: dict[str, Any] = {}
    if endpoint:
        options["endpoint"] = endpoint
    if region:
        options["region"] = region
    try:
        store = from_url(
            url,
            client_options={
                "timeout": timedelta(seconds=_REQUEST_S),
                "connect_timeout": timedelta(seconds=_CONNECT_S),
                "allow_http": urlsplit(endpoint).scheme == "http",
            },
            retry_config={"max_retries": 0, "retry_timeout": timedelta(seconds=_REQUEST_S)},
            **options,
        )
    except Exception as error:
        raise BucketUnusable(
            f"{url}: {reason_of(error)}; look at the address, and at what the environment says of the "
            f"store ({_VARIABLES[parts.scheme]}, …)"
        ) from error
    return StoreObjects(store)


def reason_of(error: BaseException) -> str:
    """What an error says, in one line: the request, the status, and the store's own words.

    >>> reason_of(ValueError("no such thing\\n\\nDebug source: …"))
    'no such thing'
    >>> status = "Server returned non-2xx status code: 403 Forbidden"
    >>> body = "<Error><Code>AccessDenied</Code><Message>Not you</Message></Error>"
    >>> reason_of(ValueError(f"Generic: Error performing PUT http://s/b/k in 2ms - {status}: {body}"))
    'PUT http://s/b/k: 403 Forbidden, AccessDenied: Not you'
    """
    text = _text(error)
    request = _REQUEST.search(text)
    if request is None:
        return (text.strip() or type(error).__name__).splitlines()[0]
    status = _STATUS.search(text)
    if status is None:
        return f"{request[1]}: {request[2].splitlines()[0]}"
    words = ": ".join(
        dict.fromkeys(found[1] for found in (_CODE.search(text), _MESSAGE.search(text)) if found)
    )
    return " ".join(f"{request[1]}: {status[1]}{', ' if words else ''}{words}".split())


def code_of(error: BaseException) -> str:
    """The store's word for an error; empty if it said none.

    >>> code_of(ValueError("404 Not Found: <Error><Code>NoSuchKey</Code></Error>"))
    'NoSuchKey'
    """
    found = _CODE.search(_text(error))
    return "" if found is None else found[1]


def failed(error: BaseException, *, is_denied: bool = False) -> Failed:
    """A reply that tells an error. Of a list that is not permitted only the status says so."""
    text = _text(error)
    if any(place in text for place in _ROLES):  # the store was not asked
        return Failed(reason_of(error), code=NO_CREDENTIALS)
    if _FOREIGN in text:
        return Failed(
            f"{reason_of(error).partition(_FOREIGN)[2]}: it is another program's: delete it, for "
            "nothing can be listed with it",
            code=FOREIGN_KEY,
        )
    status = _STATUS.search(text)
    is_denied = is_denied or (status is not None and status[1].startswith(_DENIED))
    return Failed(reason_of(error), is_denied=is_denied, code=code_of(error))


def _text(error: BaseException) -> str:
    """What is meant for people."""
    return str(error).partition("\n\nDebug source:")[0]


class StoreObjects:
    """`Objects` of an object store that obstore reaches."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def answer(self, request: Request) -> Reply:
        from obstore import exceptions

        try:
            return await self._answer(request)
        except FileNotFoundError as error:
            if code_of(error) in _NO_BUCKET:  # nothing is known of the object
                return failed(error)
            if isinstance(request, Get):
                return Absent()
            return Done() if isinstance(request, Delete) else failed(error)
        except (exceptions.AlreadyExistsError, exceptions.PreconditionError):
            return Refused()
        except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
            return failed(error, is_denied=True)
        except NotImplementedError as error:
            return Failed(f"the store does not have what is needed: {reason_of(error)}")
        except (exceptions.BaseError, OSError) as error:
            return failed(error)

    async def _answer(self, request: Request) -> Reply:
        import obstore

        store = self._store
        match request:
            case Get(key):
                found = await obstore.get_async(store, key)
                tag = _tag(found.meta)
                return Found(bytes(await found.bytes_async()), tag)
            case Create(key, data):
                return Done(_tag(await obstore.put_async(store, key, data, mode="create")))
            case Replace(key, data, tag):
                mode = json.loads(tag)
                return Done(_tag(await obstore.put_async(store, key, data, mode=mode)))
            case Put(key, data):
                # In one request, as the price of it is: parts are a request each, and those of a broker that
                # is killed on the way stay in the bucket, seen by no list.
                return Done(_tag(await obstore.put_async(store, key, data, use_multipart=False)))
            case Delete(key):
                await obstore.delete_async(store, key)
                return Done()
            case Scan(prefix):
                objects: list[tuple[str, int]] = []
                async for page in obstore.list(store, prefix):
                    objects += ((str(one["path"]), one["size"]) for one in page)
                return Listed(sorted(objects))
        return Done()

    def read(self, key: str, start: int, size: int) -> Buffer:
        import obstore
        from obstore import exceptions

        began = since_boot()
        for attempt in range(_READS):
            try:
                data = memoryview(obstore.get_range(self._store, key, start=start, length=size))
                if len(data) == size:
                    return data
                reason = f"{len(data)} bytes at {start}, not {size}"
            except FileNotFoundError as error:
                raise OSError(errno.EIO, f"{key} is not in the bucket") from error
            except (exceptions.BaseError, OSError) as error:
                reason = reason_of(error)
            if not attempt and self._is_shorter(key, start + size):
                raise OSError(errno.EIO, f"{key} is shorter than {start + size} bytes: {reason}")
            if attempt == _READS - 1 or since_boot() - began > _READ_S:
                break
            time.sleep(pause_s(attempt))
        raise NotAnswered(errno.EIO, f"{key}: {reason}")

    def _is_shorter(self, key: str, size: int) -> bool:
        """Does the store say so? A body that was cut on its way proves nothing."""
        import obstore
        from obstore import exceptions

        try:
            return obstore.head(self._store, key)["size"] < size
        except (exceptions.BaseError, OSError):
            return False

    async def close(self) -> None:
        """Connections are given back with the store."""


def _tag(meta: Any) -> str:
    """What names an object's version to the store: stores differ in which of the two they look at."""
    return json.dumps({name: meta[name] for name in ("e_tag", "version") if meta.get(name)})
