// The operations: a row for each, with a line for each element type.
//
// A row has the documentation of its functions in C, the name, the number of input arrays, and the formula, as the text
// of an expression and as the one step of its program. A line has the formula in Rust, for the loop of a core.
//
// Two macros read the rows. One in table.rs turns them into types. One in build/operations.rs writes the exported
// functions, the declarations of gpuvec.hpp, the package's table and the lists of functions.

operations! {
    elementwise {
        /// Adds: `out[i] = a[i] + b[i]`.
        "add", 2 inputs, "a + b" by Add {
            AddF32 of f32: (a, b) => a + b;
            AddF64 of f64: (a, b) => a + b;
            AddI32 of i32: (a, b) => a.wrapping_add(b);
            AddI64 of i64: (a, b) => a.wrapping_add(b);
        }
        /// Subtracts: `out[i] = a[i] - b[i]`.
        "sub", 2 inputs, "a - b" by Sub {
            SubF32 of f32: (a, b) => a - b;
            SubF64 of f64: (a, b) => a - b;
            SubI32 of i32: (a, b) => a.wrapping_sub(b);
            SubI64 of i64: (a, b) => a.wrapping_sub(b);
        }
        /// Multiplies: `out[i] = a[i] * b[i]`.
        "mul", 2 inputs, "a * b" by Mul {
            MulF32 of f32: (a, b) => a * b;
            MulF64 of f64: (a, b) => a * b;
            MulI32 of i32: (a, b) => a.wrapping_mul(b);
            MulI64 of i64: (a, b) => a.wrapping_mul(b);
        }
        /// Divides: `out[i] = a[i] / b[i]`.
        "div", 2 inputs, "a / b" by Div {
            DivF32 of f32: (a, b) => a / b;
            DivF64 of f64: (a, b) => a / b;
        }
        /// Multiplies by a number: `out[i] = alpha * a[i]`.
        "scale", 1 inputs, "alpha * a" by Mul {
            ScaleF32(alpha) of f32: (a, _) => alpha * a;
            ScaleF64(alpha) of f64: (a, _) => alpha * a;
        }
        /// Adds a multiple: `out[i] = alpha * a[i] + b[i]`. Each element is rounded once, as by `fma`.
        "axpy", 2 inputs, "fma(alpha, a, b)" by Fma {
            AxpyF32(alpha) of f32: (a, b) => alpha.mul_add(a, b);
            AxpyF64(alpha) of f64: (a, b) => alpha.mul_add(a, b);
        }
    }
    reduction {
        /// Dot product: `out[0] = a[0]*b[0] + … + a[n-1]*b[n-1]`.
        "dot", 2 inputs, "dot(a, b)" by Dot {
            DotF32 of f32 => f32 by Dot<f32>;
            DotF64 of f64 => f64 by Dot<f64>;
            /// Products are exact.
            DotI32 of i32 => i64 by WrappingSum: (sum, a, b) => {
                *sum = sum.wrapping_add(i64::from(a) * i64::from(b))
            };
            /// Products wrap around, too.
            DotI64 of i64 => i64 by WrappingSum: (sum, a, b) => {
                *sum = sum.wrapping_add(a.wrapping_mul(b))
            };
        }
        /// Sum: `out[0] = a[0] + … + a[n-1]`.
        "sum", 1 inputs, "sum(a)" by Sum {
            SumF32 of f32 => f32 by Sum<f32>;
            SumF64 of f64 => f64 by Sum<f64>;
            SumI32 of i32 => i64 by WrappingSum: (sum, a, _) => *sum = sum.wrapping_add(a.into());
            SumI64 of i64 => i64 by WrappingSum: (sum, a, _) => *sum = sum.wrapping_add(a);
        }
        /// Minimum: `out[0]` is the smallest `a[i]`.
        "min", 1 inputs, "min(a)" by Min {
            MinF32 of f32 => f32 by Min<f32>: (min, a, _) => Min::<f32>::merge(min, &a);
            MinF64 of f64 => f64 by Min<f64>: (min, a, _) => Min::<f64>::merge(min, &a);
            MinI32 of i32 => i32 by Min<i32>: (min, a, _) => Min::<i32>::merge(min, &a);
            MinI64 of i64 => i64 by Min<i64>: (min, a, _) => Min::<i64>::merge(min, &a);
        }
        /// Maximum: `out[0]` is the largest `a[i]`.
        "max", 1 inputs, "max(a)" by Max {
            MaxF32 of f32 => f32 by Max<f32>: (max, a, _) => Max::<f32>::merge(max, &a);
            MaxF64 of f64 => f64 by Max<f64>: (max, a, _) => Max::<f64>::merge(max, &a);
            MaxI32 of i32 => i32 by Max<i32>: (max, a, _) => Max::<i32>::merge(max, &a);
            MaxI64 of i64 => i64 by Max<i64>: (max, a, _) => Max::<i64>::merge(max, &a);
        }
    }
}
