"""All benchmarks, or one by name with its own options.

python -m bench
python -m bench broker --only publish-1
"""

from __future__ import annotations

import sys

from bench import broker, cursor


def main(argv: list[str]) -> int:
    if argv and argv[0] == "broker":
        return broker.main(argv[1:])
    if argv and argv[0] != "cursor":
        print(f"no benchmark is called {argv[0]}; there are broker and cursor", file=sys.stderr)
        return 2
    missed = [figure for figure in cursor.main() if not figure.ok]
    return int(bool(missed)) if argv else max(broker.main([]), int(bool(missed)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
