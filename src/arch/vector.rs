//! Implements [`Vector`](super::Vector) from a list of instructions.

/// Defines a vector of f64 by its instructions. A value of the instruction set proves that the processor has them.
macro_rules! vector {
    ($(#[$doc:meta])* $name:ident($register:ty, $lanes:literal) by $set:ident: splat $splat:ident,
     load_f32 $load_f32:expr, load_f64 $load_f64:ident,
     multiply_add $multiply_add:expr, multiply_subtract $multiply_subtract:expr,
     flag_changes $flag_changes:expr, flag_vanished $flag_vanished:expr,
     integers { $to_integers:ident, $from_integers:ident, $load_integers:ident, $ones:expr, $add:ident, $min:expr, $max:expr },
     magnitudes $magnitudes:expr,
     $($trait:ident $operator:ident $instruction:ident),+) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name($register);

        impl $crate::arch::Vector for $name {
            type Set = $set;
            const LANES: usize = $lanes;
            type Bits = [u64; $lanes];

            #[inline(always)]
            fn splat(_: $set, x: f64) -> Self {
                // SAFETY: the set proves the instructions.
                Self(unsafe { $splat(x) })
            }

            #[inline(always)]
            fn load<T: gpuvec_exact::Float>(_: $set, from: &[T]) -> Self {
                assert!(from.len() >= $lanes);
                let from = from.as_ptr();
                // SAFETY: the set proves the instructions; by the assertion, there are enough elements; their size
                // tells the two formats apart.
                Self(unsafe {
                    if size_of::<T>() == 4 { $load_f32(from.cast()) } else { $load_f64(from.cast()) }
                })
            }

            #[inline(always)]
            fn multiply_add(x: Self, y: Self, z: Self) -> Self {
                // SAFETY: a vector proves the instructions.
                Self(unsafe { $multiply_add(x.0, y.0, z.0) })
            }

            #[inline(always)]
            fn multiply_subtract(x: Self, y: Self, z: Self) -> Self {
                // SAFETY: a vector proves the instructions.
                Self(unsafe { $multiply_subtract(x.0, y.0, z.0) })
            }

            #[inline(always)]
            fn flag_changes(flags: Self, x: Self, y: Self) -> Self {
                // SAFETY: a vector proves the instructions.
                Self(unsafe { $flag_changes(flags.0, x.0, y.0) })
            }

            #[inline(always)]
            fn flag_vanished(flags: Self, product: Self, x: Self, y: Self) -> Self {
                // SAFETY: a vector proves the instructions.
                Self(unsafe { $flag_vanished(flags.0, product.0, x.0, y.0) })
            }

            #[inline(always)]
            fn extremes(of: [Self; 2], from: &[impl gpuvec_exact::Float]) -> [Self; 2] {
                assert!(size_of_val(from) >= 8 * $lanes);
                // SAFETY: a vector proves the instructions; by the assertion, there are enough elements.
                unsafe {
                    let [least, most] = of.map(|vector| $to_integers(vector.0));
                    let encodings = $load_integers(from.as_ptr().cast());
                    let sizes = $add(encodings, encodings);
                    let least = $min(least, $add(sizes, $ones(-1)));
                    [least, $max(most, sizes)].map(|vector| Self($from_integers(vector)))
                }
            }

            #[inline(always)]
            fn magnitudes([least, most]: [Self; 2], x: Self) -> [Self; 2] {
                // SAFETY: a vector proves the instructions.
                unsafe { $magnitudes(least.0, most.0, x.0) }.map(Self)
            }

            #[inline(always)]
            fn bits(self) -> Self::Bits {
                // SAFETY: both types have the same size, and any bytes are valid.
                unsafe { std::mem::transmute(self) }
            }
        }

        $(impl std::ops::$trait for $name {
            type Output = Self;

            #[inline(always)]
            fn $operator(self, other: Self) -> Self {
                // SAFETY: a vector proves the instructions.
                Self(unsafe { $instruction(self.0, other.0) })
            }
        })+
    };
}
pub(crate) use vector;
