"""gpuvec in user functions of Spark and Ray, in their own processes; and arrays of JAX.

`make peers` installs them, and runs these tests. Spark needs Java.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import gpuvec
import numpy as np
import pytest

PACKAGE = str(Path(gpuvec.__file__).parents[1])
ROWS = 10_000
PRICES, AMOUNTS = np.arange(ROWS) / 8, np.arange(ROWS) % 7


@pytest.fixture(scope="module")
def spark() -> Iterator:
    """Starts Spark with one worker, which finds this gpuvec."""
    sql = pytest.importorskip("pyspark.sql")
    if not shutil.which("java") and "JAVA_HOME" not in os.environ:
        pytest.skip("Java is not installed, and Spark needs it")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = PACKAGE
    builder = sql.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
    yield session
    session.stop()


def orders(spark):
    """Returns a table of Spark's."""
    import pandas

    return spark.createDataFrame(pandas.DataFrame({"price": PRICES, "amount": AMOUNTS}))


def test_pandas_functions_of_spark(spark):
    """Series in, Series out; the batches of a pandas UDF become no copies on their way in."""
    import pandas
    from pyspark.sql.functions import pandas_udf

    @pandas_udf("double")
    def cost(price: pandas.Series, amount: pandas.Series) -> pandas.Series:
        from gpuvec._arrays import find

        assert np.shares_memory(find("x", price).array, price.to_numpy())
        return gpuvec.evaluate("price * amount", price=price, amount=amount)

    found = orders(spark).select(cost("price", "amount").alias("cost")).toPandas()["cost"]
    assert sorted(found) == sorted(PRICES * AMOUNTS)


def test_frames_of_spark(spark):
    """A function for `mapInPandas`, and one for `mapInArrow`."""

    def in_pandas(frames):
        for frame in frames:
            yield frame.assign(cost=gpuvec.evaluate("price * amount", frame))

    def in_arrow(batches):
        for batch in batches:
            yield batch.append_column("cost", gpuvec.evaluate("price * amount", batch))

    table, schema = orders(spark), "price double, amount long, cost double"
    for found in (table.mapInPandas(in_pandas, schema), table.mapInArrow(in_arrow, schema)):
        assert sorted(found.toPandas()["cost"]) == sorted(PRICES * AMOUNTS)


def test_batches_of_ray():
    """A function for `map_batches` gets arrays, frames or tables, as it asks."""
    ray = pytest.importorskip("ray")
    pytest.importorskip("ray.data")
    environment = {"env_vars": {"PYTHONPATH": PACKAGE}}
    ray.init(num_cpus=1, runtime_env=environment, include_dashboard=False, log_to_driver=False)
    try:
        import pandas

        data = ray.data.from_pandas(pandas.DataFrame({"price": PRICES, "amount": AMOUNTS}))

        def with_cost(batch: dict) -> dict:
            return {"cost": gpuvec.evaluate("price * amount", batch)}

        def of_tables(batch):
            import pyarrow

            return pyarrow.table({"cost": gpuvec.evaluate("price * amount", batch)})

        for function, kind in [(with_cost, "numpy"), (of_tables, "pyarrow")]:
            batches = data.map_batches(function, batch_format=kind)
            found = [row["cost"] for row in batches.take_all()]
            assert sorted(found) == sorted(PRICES * AMOUNTS)
    finally:
        ray.shutdown()


def test_arrays_of_jax():
    """They are inputs, by DLPack, without a copy."""
    jax = pytest.importorskip("jax")
    x = jax.numpy.arange(5, dtype=jax.numpy.float32)
    assert gpuvec.evaluate("x + 1", x=x).tolist() == [1, 2, 3, 4, 5]
    assert gpuvec.sum(x) == 10
    shared = gpuvec.from_dlpack(x)
    assert shared.address == x.unsafe_buffer_pointer()
