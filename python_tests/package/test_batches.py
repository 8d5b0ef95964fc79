"""User functions of engines for tables: batches are used where the engine has them.

Spark and Ray are large, so these tests pass what they would pass; `make peers` runs both.
"""

from collections.abc import Iterator
from typing import Any

import gpuvec
import numpy as np
import pytest
from gpuvec._arrays import find

ROWS = 5000


def values(seed: int) -> np.ndarray:
    """Numbers of a column."""
    return np.random.default_rng(seed).random(ROWS)


def assert_in_place(column: Any, memory: np.ndarray) -> None:
    """A call reads a column in the batch's own memory."""
    found = find("x", column).array
    assert (found.ctypes.data, found.shape) == (memory.ctypes.data, memory.shape)


def test_series_of_spark():
    """A pandas UDF gets Series that Arrow's batches became, read-only, and returns a Series."""
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")

    def cost(price: "pandas.Series", amount: "pandas.Series") -> "pandas.Series":
        assert_in_place(price, price.to_numpy())
        return gpuvec.evaluate("price * amount", price=price, amount=amount)

    def costs(batches: Iterator[tuple[Any, ...]]) -> Iterator[Any]:
        for price, amount in batches:
            yield cost(price, amount)

    price, amount = pyarrow.array(values(1)), pyarrow.array(values(2))
    batch = price.to_pandas(), amount.to_pandas()
    assert_in_place(batch[0], price.to_numpy())
    wanted = pandas.Series(values(1) * values(2))
    pandas.testing.assert_series_equal(cost(*batch), wanted)
    for result in costs(iter([batch, batch])):
        pandas.testing.assert_series_equal(result, wanted)


def test_frames_of_spark():
    """A function for `mapInPandas` or `applyInPandas` gets frames."""
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    batch = pyarrow.record_batch({"x": values(1), "y": values(2), "name": ["a"] * ROWS})

    def with_distance(frame: "pandas.DataFrame") -> "pandas.DataFrame":
        return frame.assign(distance=gpuvec.evaluate("sqrt(x*x + y*y)", frame))

    frame = batch.to_pandas()
    assert_in_place(frame["x"], frame["x"].to_numpy())
    result = with_distance(frame)["distance"].to_numpy()
    assert (result == np.sqrt(values(1) ** 2 + values(2) ** 2)).all()


def test_batches_of_ray():
    """A function for `map_batches` gets a dict of arrays, read-only, and returns one."""
    pyarrow = pytest.importorskip("pyarrow")

    def with_cost(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {**batch, "cost": gpuvec.evaluate("price * amount", batch)}

    table = pyarrow.table({"price": values(1), "amount": values(2)})
    batch = {name: table[name].chunk(0).to_numpy() for name in table.column_names}
    assert not batch["price"].flags.writeable
    assert_in_place(batch["price"], table["price"].chunk(0).to_numpy())
    assert (with_cost(batch)["cost"] == values(1) * values(2)).all()

    def of_arrow(batch: "pyarrow.Table") -> "pyarrow.Table":
        assert_in_place(batch["price"], batch["price"].chunk(0).to_numpy())
        return batch.append_column("cost", gpuvec.evaluate("price * amount", batch))

    assert (of_arrow(table)["cost"].to_numpy() == values(1) * values(2)).all()


def test_functions_of_duckdb():
    """A function of type "arrow" gets arrays of pyarrow, and returns one."""
    duckdb = pytest.importorskip("duckdb")
    pyarrow = pytest.importorskip("pyarrow")
    rows = []

    def cost(price: Any, amount: Any) -> Any:
        assert price.num_chunks == 1
        assert_in_place(price, price.chunk(0).to_numpy())
        rows.append(len(price))
        return gpuvec.evaluate("price * amount", price=price, amount=amount)

    def filled(x: Any) -> Any:
        return gpuvec.evaluate("x + 1", x=x, na=-1)

    orders = pyarrow.table({"price": values(1), "amount": values(2), "row": np.arange(ROWS)})
    with duckdb.connect() as connection:
        connection.register("orders", orders)
        connection.create_function("cost", cost, ["DOUBLE", "DOUBLE"], "DOUBLE", type="arrow")
        connection.create_function(
            "filled", filled, ["BIGINT"], "BIGINT", type="arrow", null_handling="special"
        )
        query = "SELECT cost(price, amount) AS cost FROM orders ORDER BY row"
        found = connection.execute(query).fetchnumpy()["cost"]
        assert (found == values(1) * values(2)).all() and sum(rows) == ROWS
        query = "SELECT filled(nullif(i, 2)) FROM range(4) numbers(i) ORDER BY i"
        assert connection.execute(query).fetchall() == [(1,), (2,), (0,), (4,)]


def test_functions_of_polars():
    """A function for `map_batches` gets Series, and returns one; several chunks are joined."""
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"price": values(1), "amount": values(2)})

    def doubled(price: Any) -> Any:
        if price.n_chunks() == 1:
            assert_in_place(price, price.to_numpy(allow_copy=False))
        return gpuvec.evaluate("2 * price", price=price)

    def cost(columns: list[Any]) -> Any:
        price, amount = columns
        return gpuvec.evaluate("price * amount", price=price, amount=amount)

    found = frame.lazy().select(
        polars.col("price").map_batches(doubled, return_dtype=polars.Float64).alias("doubled"),
        polars.map_batches(["price", "amount"], cost, return_dtype=polars.Float64).alias("cost"),
    )
    found = found.collect()
    assert doubled(frame["price"]).to_list() == found["doubled"].to_list()
    assert (found["doubled"].to_numpy() == 2 * values(1)).all()
    assert (found["cost"].to_numpy() == values(1) * values(2)).all()
