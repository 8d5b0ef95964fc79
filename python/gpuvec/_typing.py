"""The types of arguments, for type checkers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Union

if TYPE_CHECKING:
    # A type checker knows the module, even where it is not installed.
    from typing_extensions import Buffer as Buffer
else:
    Buffer = Any


class SupportsDLPack(Protocol):
    """An array of another library, such as NumPy, CuPy, PyTorch or JAX."""

    def __dlpack__(self, *, stream: Any = ...) -> Any: ...

    def __dlpack_device__(self) -> tuple[Any, Any]: ...


class SupportsCudaArrayInterface(Protocol):
    """An array in device memory, such as Numba's."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...


class SupportsToNumPy(Protocol):
    """A column of pandas, polars, xarray or pyarrow."""

    def to_numpy(self) -> Any: ...


class SupportsArrow(Protocol):
    """An array of Arrow."""

    def __arrow_c_array__(self, requested_schema: Any = ...) -> tuple[Any, Any]: ...


class Table(Protocol):
    """A table of pandas, polars or pyarrow."""

    @property
    def columns(self) -> Any: ...

    def __getitem__(self, name: Any, /) -> Any: ...


Array = Union[SupportsDLPack, SupportsCudaArrayInterface, SupportsToNumPy, SupportsArrow, Buffer]
