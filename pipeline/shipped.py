"""What Spark ships to executors says what to do where they have no tidelog.

Spark sends source, reader and writer to its tasks by pickle, which names its class; a Python that has no such module fails with
`No module named 'tidelog'` before any line of ours runs there. So these objects go as bytes, within a small function that goes by
value: cloudpickle, which Spark ships with, does so with every function that stands within another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark import cloudpickle


class Shipped:
    """Base of sources, readers and writers. Pickled in the driver, unpickled in tasks; by cloudpickle alone."""

    def __reduce_ex__(self, protocol: Any) -> tuple[Callable[[bytes], Any], tuple[bytes]]:
        state = self.__getstate__()
        assert isinstance(state, dict)
        return _opener(), (cloudpickle.dumps((type(self), state)),)


def _opener() -> Callable[[bytes], Any]:
    """A function that knows nothing but Python: what it needs it imports itself."""

    def opened(data: bytes) -> Any:
        import pickle
        import sys

        try:
            kind, state = pickle.loads(data)  # noqa: S301  # by our own driver, as all that Spark ships
        except ModuleNotFoundError as error:
            lacking = (error.name or "tidelog").partition(".")[0]
            what = "tidelog is not installed" if lacking == "tidelog" else f"{lacking}, which tidelog needs, is missing"
            raise ModuleNotFoundError(
                f"{what} in the Python of this executor ({sys.executable}): put tidelog[executor] there by pip, or ship an "
                "environment with it by spark.archives (spark-submit --archives environment.tar.gz#environment) and "
                "PYSPARK_PYTHON=./environment/bin/python; --py-files is not enough, since tidelog is compiled; docs/PIPELINE.md, "
                "'Clusters: what moves where', has the recipe",
                name=error.name,
            ) from None
        made = kind.__new__(kind)
        made.__dict__.update(state)
        return made

    return opened
