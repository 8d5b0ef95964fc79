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

    def __dlpack__(self, *, stream: Any = ...) -> Any:
        """Export the array."""

    def __dlpack_device__(self) -> tuple[Any, Any]:
        """Return the device."""


class SupportsCudaArrayInterface(Protocol):
    """An array in device memory, such as Numba's."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Describes the array."""


Array = Union[SupportsDLPack, SupportsCudaArrayInterface, Buffer]
