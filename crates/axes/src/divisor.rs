//! Division by numbers that are known before a kernel starts.

/// A divisor of numbers below 2^31. Kernels divide by it in two instructions, `mad.hi.u32` and a shift.
///
/// The multiplier is taken from Granlund and Montgomery (Division by Invariant Integers using Multiplication, 1994,
/// theorem 4.2): with `s = ⌈log2 d⌉` and `m = ⌊2^(32+s) / d⌋ + 1`, `2^(32+s) < m·d <= 2^(32+s) + 2^s`, so that
/// `⌊n / d⌋ = ⌊n·m / 2^(32+s)⌋` for all `n` below 2^32. The highest of the 33 bits of `m` is not stored:
/// `n·m / 2^32 = n·(m - 2^32) / 2^32 + n`. That sum has 32 bits if `n` is below 2^31.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Divisor {
    /// `m - 2^32`.
    pub multiplier: u32,
    /// `s`.
    pub shift: u32,
}

impl Divisor {
    /// The exclusive upper limit of dividends and divisors.
    pub const LIMIT: u32 = 1 << 31;

    /// Division by `divisor`.
    ///
    /// # Panics
    /// If `divisor` is 0 or not below [`Divisor::LIMIT`].
    pub const fn new(divisor: u32) -> Self {
        assert!(divisor > 0 && divisor < Self::LIMIT);
        let shift = divisor.next_power_of_two().ilog2();
        let multiplier = (1u64 << (32 + shift)) / divisor as u64 + 1 - (1 << 32);
        Divisor { multiplier: multiplier as u32, shift }
    }

    /// The quotient of a number below [`Divisor::LIMIT`], rounded down.
    pub const fn divide(self, n: u32) -> u32 {
        let high = ((n as u64 * self.multiplier as u64) >> 32) as u32;
        (high + n) >> self.shift
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MOST: u32 = Divisor::LIMIT - 1;

    /// Compares with the machine's division near the dividends at which the quotient changes, and at both ends.
    fn check(d: u32) {
        let divisor = Divisor::new(d);
        let last = MOST / d * d;
        let near = |n: u32| [n.saturating_sub(1), n, n.saturating_add(1)];
        for n in
            [0, d, d.saturating_mul(2), last - last.min(d), last, MOST].into_iter().flat_map(near)
        {
            let n = n.min(MOST);
            assert_eq!(divisor.divide(n), n / d, "{n} / {d}");
        }
    }

    #[test]
    fn small_and_large_divisors_and_powers_of_two_divide_exactly() {
        (1..100_000).for_each(check);
        (MOST - 1000..=MOST).for_each(check);
        for power in 0..31 {
            let d = 1 << power;
            (d - d.min(5)..d + 5).filter(|d| *d > 0).for_each(check);
        }
    }

    #[test]
    fn all_dividends_of_some_bits_divide_exactly() {
        for d in 1..100 {
            let divisor = Divisor::new(d);
            (0..10_000).for_each(|n| assert_eq!(divisor.divide(n), n / d, "{n} / {d}"));
        }
    }

    proptest! {
        #[test]
        fn any_number_divides_exactly(d in 1..=MOST, n in 0..=MOST, quotient in 0..=MOST) {
            let divisor = Divisor::new(d);
            check(d);
            prop_assert_eq!(divisor.divide(n), n / d);
            // Dividends at which the quotient by a small divisor changes.
            let (d, quotient) = (d % 10_000 + 1, quotient % (MOST / 10_001));
            for n in [quotient * d, quotient * d + d - 1] {
                prop_assert_eq!(Divisor::new(d).divide(n), n / d);
            }
        }
    }
}
