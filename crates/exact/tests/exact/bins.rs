//! Bins: more terms than they hold at once, and terms that are not finite.

use crate::for_each_kind;

for_each_kind! {
    the_largest_terms_do_not_overflow_bins;
    terms_that_are_not_finite_are_counted;
}

mod generic {
    use crate::oracle::{Case, binned, deposited, normalised};

    pub(crate) fn the_largest_terms_do_not_overflow_bins<K: Case>() {
        let largest = if crate::oracle::is_single::<K>() { f32::MAX.into() } else { f64::MAX };
        for sign in [1.0, -1.0] {
            let terms = vec![K::term(largest, sign * largest); (1 << 17) + 1000];
            assert_eq!(normalised(&binned::<K>(&terms)), normalised(&deposited::<K>(&terms)));
        }
    }

    pub(crate) fn terms_that_are_not_finite_are_counted<K: Case>() {
        let mut terms = vec![K::term(0.1, -0.3); 1000];
        for (i, x) in
            [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -f64::NAN].into_iter().enumerate()
        {
            terms[70 * i + 3] = K::term(x, 1.0);
        }
        terms[999] = K::term(f64::INFINITY, 0.0);
        assert_eq!(normalised(&binned::<K>(&terms)), normalised(&deposited::<K>(&terms)));
    }
}
