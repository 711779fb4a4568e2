"""The metrics of all workers as one text.

Every line gets the label `worker`; lines of one family stand together, as Prometheus wants them. A worker
that did not answer is `milepost_worker_up` 0, and the others' lines are there all the same.

    >>> print(merged({0: "# TYPE a gauge\\na 1.0\\n", 1: "# TYPE a gauge\\na{b=\\"c\\"} 2.0\\n"}), end="")
    # HELP milepost_worker_up Does the worker answer?
    # TYPE milepost_worker_up gauge
    milepost_worker_up{worker="0"} 1.0
    milepost_worker_up{worker="1"} 1.0
    # TYPE a gauge
    a{worker="0"} 1.0
    a{worker="1",b="c"} 2.0
"""

from __future__ import annotations

from collections.abc import Mapping

_UP = "milepost_worker_up"
_EOF = "# EOF"


def merged(texts: Mapping[int, str | None]) -> str:
    """By worker; None for one that did not answer."""
    heads: dict[str, list[str]] = {}
    lines: dict[str, list[str]] = {}
    has_end = False
    for number, text in texts.items():
        family, label = "", f'worker="{number}"'
        is_new = False
        for line in (text or "").splitlines():
            if line == _EOF:
                has_end = True
            elif line.startswith("#"):
                _, _, name, *_ = line.split(" ", 3)
                if name != family:
                    family, is_new = name, name not in heads
                if is_new:
                    heads.setdefault(family, []).append(line)
            elif line:
                lines.setdefault(family, []).append(_labelled(line, label))
    whole = [f"# HELP {_UP} Does the worker answer?", f"# TYPE {_UP} gauge"]
    whole += [f'{_UP}{{worker="{one}"}} {float(said is not None)}' for one, said in texts.items()]
    for family, head in heads.items():
        whole += [*head, *lines.get(family, ())]
    if has_end:
        whole.append(_EOF)
    return "\n".join(whole) + "\n"


def _labelled(line: str, label: str) -> str:
    brace, blank = line.find("{"), line.find(" ")
    if 0 <= brace < blank:
        return f"{line[: brace + 1]}{label},{line[brace + 1 :]}"
    return f"{line[:blank]}{{{label}}}{line[blank:]}"
