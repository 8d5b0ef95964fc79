"""Keys of any type: their groups, labels and results, as pandas' groupby has them."""

import gpuvec
import numpy as np
import pytest
from arrays import assert_same_bits
from keyed import expected

X = np.float64([0.1, 2, 0.2, 4, 0.3, 1e300, -1e300, 8])
TOWNS = ["Oslo", "Bern", "Oslo", "Rome", "Oslo", "Bern", "Bern", "Rome"]
CODES, LABELS = [1, 0, 1, 2, 1, 0, 0, 2], ["Bern", "Oslo", "Rome"]
SUMS = [2.0, 0.6, 12.0]


def check(groups, codes=CODES, labels=LABELS):
    """Checks the codes, the labels, and the sums without a label's name."""
    assert groups.codes.tolist() == codes and groups.codes.dtype == np.int64
    assert list(groups.labels) == labels and len(groups) == len(labels)
    right = expected("sum", X, np.array(codes).ravel(), len(labels))
    assert_same_bits(np.asarray(gpuvec.sum(X.reshape(groups.codes.shape), by=groups)), right)


def test_arrays_of_numpy(placement):
    towns = np.array(TOWNS)
    for keys in (TOWNS, towns, towns.astype("S"), towns.astype(object)):
        groups = gpuvec.group(keys)
        check(
            groups,
            labels=[one.encode() if groups.labels.dtype.kind == "S" else one for one in LABELS],
        )
    assert gpuvec.sum(X, by=gpuvec.group(TOWNS)).tolist() == SUMS
    assert repr(gpuvec.group(TOWNS)) == "<gpuvec.Groups: 3 groups of 8 keys>"
    table = gpuvec.group(towns.reshape(4, 2))
    assert table.codes.shape == (4, 2)
    check(table, np.reshape(CODES, (4, 2)).tolist())
    check(gpuvec.group(np.array(CODES) * 10 - 7), labels=[-7, 3, 13])
    check(gpuvec.group(np.array(CODES) > 0), [int(code > 0) for code in CODES], [False, True])


def test_nulls_are_in_no_group(placement):
    numbers = np.array([1, np.nan, 0.5, 0.5, -np.inf, np.nan, -0.0, 0.0])
    check(gpuvec.group(numbers), [3, -1, 2, 2, 0, -1, 1, 1], [-np.inf, 0, 0.5, 1])
    days = np.array(["2020-01-02", "NaT", "2020-01-01"] + ["NaT"] * 5, "M8[D]")
    check(gpuvec.group(days), [1, -1, 0, *[-1] * 5], [days[2].item(), days[0].item()])
    assert gpuvec.sum(X, by=gpuvec.group(np.full(8, np.nan))).shape == (0,)
    assert gpuvec.sum(X[:0], by=gpuvec.group([])).shape == (0,)


def test_values_that_cannot_be_sorted():
    with pytest.raises(TypeError):
        gpuvec.group(np.array(["a", None, 3], object))


def test_groups_have_their_number_and_their_keys():
    groups = gpuvec.group(TOWNS)
    with pytest.raises(TypeError, match="^groups is 3, but by has its own groups: leave"):
        gpuvec.sum(X, by=groups, groups=3)
    with pytest.raises(ValueError, match="by has shape"):
        gpuvec.sum(X[:5], by=groups)


@pytest.mark.parametrize("kind", ["str", "object", "category", "string", "Int64", "datetime"])
def test_columns_of_pandas(placement, kind):
    """Results are Series in the order of the labels, equal to those of groupby."""
    pandas = pytest.importorskip("pandas")
    keys = pandas.Series(TOWNS, name="town", index=range(10, 18))
    if kind in ("Int64", "datetime"):
        keys = pandas.Series(CODES, keys.index, name="town")
        keys = keys.astype(kind) if kind == "Int64" else pandas.to_datetime(keys, unit="D")
    elif kind == "category":
        keys = keys.astype(pandas.CategoricalDtype(["Rome", "Paris", "Bern", "Oslo"]))
    else:
        keys = keys.astype(kind)
    keys[[11, 14]] = None
    for x in (pandas.Series(X, keys.index, name="x"), X):
        found = gpuvec.evaluate("min(x); count(x > 1)", x=x, by=gpuvec.group(keys))
        grouped = pandas.Series(X, keys.index).groupby(keys, sort=True, observed=True)
        for result, right in zip(
            found, (grouped.min(), (grouped.apply(lambda each: (each > 1).sum())))
        ):
            assert isinstance(result, pandas.Series)
            assert result.index.equals(right.index) and result.index.name == "town"
            assert result.tolist() == right.tolist()
            assert result.name == ("x" if x is not X else None)


def test_tables_of_pandas(placement):
    """Several columns are one key; columns of the table are inputs and keys."""
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"town": TOWNS, "year": [1, 1, 2, 2, 1, 1, 2, 2], "x": X, "k": CODES})
    table.loc[3, "town"] = None
    found = gpuvec.evaluate("max(x)", table, by=gpuvec.group(table[["town", "year"]]))
    right = table.groupby(["town", "year"])["x"].max()
    assert found.index.equals(right.index) and found.tolist() == right.tolist()
    assert found.name == "x" and found.index.names == ["town", "year"]
    result = gpuvec.evaluate("sum(x)", table, by="k")
    assert_same_bits(result, expected("sum", X, np.array(CODES), 3))
    assert_same_bits(gpuvec.sum(table.x, by=table.k), result)
    with pytest.raises(ValueError, match="different indexes"):
        gpuvec.sum(table.x, by=gpuvec.group(table.town[::-1]))
    out = np.empty(3)
    assert gpuvec.sum(table.x, by=gpuvec.group(table.k), out=out) is out


def test_columns_of_polars(placement):
    polars = pytest.importorskip("polars")
    keys = polars.Series("town", TOWNS)
    check(gpuvec.group(keys))
    check(gpuvec.group(keys.cast(polars.Categorical)))
    check(
        gpuvec.group(keys.cast(polars.Enum(["Rome", "Paris", "Oslo", "Bern"]))),
        [2 - code for code in CODES],
        LABELS[::-1],
    )
    holes = polars.Series([None, 1.5, float("nan"), -0.0, 0.0, None, 1.5, float("inf")])
    check(gpuvec.group(holes), [-1, 1, -1, 0, 0, -1, 1, 2], [0, 1.5, float("inf")])
    assert_same_bits(
        gpuvec.sum(polars.Series(X), by=gpuvec.group(keys)), gpuvec.sum(X, by=np.array(CODES))
    )


def test_arrays_of_arrow(placement):
    pyarrow = pytest.importorskip("pyarrow")
    keys = pyarrow.array(TOWNS)
    chunked = pyarrow.chunked_array([TOWNS[:3], TOWNS[3:]])
    for one in (keys, chunked, keys.dictionary_encode(), chunked.dictionary_encode()):
        groups = gpuvec.group(one)
        assert groups.codes.tolist() == CODES and groups.labels.to_pylist() == LABELS
        assert gpuvec.sum(X, by=groups).tolist() == SUMS
    holes = pyarrow.array([None, 1.5, float("nan"), 3.0, 3.0, None, 1.5, -1.0])
    groups = gpuvec.group(holes)
    assert groups.codes.tolist() == [-1, 1, -1, 2, 2, -1, 1, 0]
    assert groups.labels.to_pylist() == [-1, 1.5, 3]
