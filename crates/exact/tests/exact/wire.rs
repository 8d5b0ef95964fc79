//! The wire form: it adds as integers, and no damaged or foreign state is read.

use crate::oracle::{
    Case, Random, by_groups, decode, deposited, digits, encode, nearest, wire_bytes,
};
use gpuvec_exact::{
    Code, Dot, Float, Kind, MAX_STATES, State, Sum, WireError, kind_of, merge_words,
};
use num_bigint::BigInt;

crate::for_each_kind! {
    sums_of_states_are_states;
    states_in_memory_are_the_same;
    a_changed_word_is_found;
    states_of_other_kinds_are_refused;
    bytes_of_another_length_are_refused;
    rules_that_a_right_checksum_does_not_hide;
    sums_of_any_states_are_right_or_too_large;
}

fn words(bytes: &[u8]) -> Vec<i64> {
    bytes.chunks(8).map(|word| i64::from_le_bytes(word.try_into().unwrap())).collect()
}

fn bytes(words: &[i64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn encoded<K: Kind>(state: &State<K>) -> Vec<i64> {
    let mut bytes = vec![0; wire_bytes::<K>()];
    encode(state, &mut bytes);
    words(&bytes)
}

/// The checksum as the table has it.
fn with_checksum(mut words: Vec<i64>) -> Vec<i64> {
    let last = words.pop().map(|_| words.len()).unwrap();
    let power =
        |n: usize| (0..n).fold(1_i64, |p, _| p.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64));
    let sum =
        (0..last).fold(0_i64, |sum, i| sum.wrapping_add(words[i].wrapping_mul(power(last - i))));
    words.push(sum);
    words
}

fn terms<K: Case>(random: &mut Random, n: usize) -> Vec<K::Term> {
    (0..n).map(|_| K::term(random.scaled(-100, 100), random.scaled(-100, 100))).collect()
}

mod generic {
    use super::*;

    pub(super) fn sums_of_states_are_states<K: Case>() {
        let mut random = Random(12);
        let largest: f64 = K::Element::from_encoding(K::Element::INFINITY - 1).into();
        let all: Vec<_> = (0..7).map(|i| terms::<K>(&mut random, 40 * i)).collect();
        let mut sum = vec![0_i64; wire_bytes::<K>() / 8];
        for part in &all {
            let part = encoded(&deposited::<K>(part));
            sum.iter_mut().zip(part).for_each(|(sum, word)| *sum = sum.wrapping_add(word));
        }
        let whole = deposited::<K>(&all.concat());
        let read = decode::<K>(&bytes(&sum)).unwrap();
        assert_eq!(encoded(&read), encoded(&whole));
        assert_eq!(read.value().encoding(), whole.value().encoding());

        // As many as are allowed, of the states that have the largest digits.
        for (x, y) in [(largest, largest), (-largest, largest), (-1.0, 1e-30)] {
            for ranks in [2, 3, 1000, 1 << 20, MAX_STATES] {
                let term = K::term(x, y);
                let one = encoded(&deposited::<K>(&[term, term]));
                let many: Vec<_> = one.iter().map(|word| word.wrapping_mul(ranks)).collect();
                let exact = by_groups::<K>(&[term, term]) * ranks;
                let read = decode::<K>(&bytes(&many)).unwrap();
                assert_eq!(read.words().as_ref()[4..], digits::<K>(&exact));
                assert_eq!(read.words().as_ref()[0], 2 * ranks);
                let expected: K::Element = nearest(&exact, K::LOW);
                assert_eq!(read.value().encoding(), expected.encoding());
            }
        }
    }

    pub(super) fn states_in_memory_are_the_same<K: Case>() {
        let mut random = Random(13);
        let special = [f64::INFINITY, f64::NAN].map(|x| K::term(x, 1.0));
        let mut all: Vec<_> = (0..7).map(|i| terms::<K>(&mut random, 40 * i)).collect();
        all.extend(special.map(|term| vec![term]));
        let (mut words, mut whole) = (vec![0; K::CODE.words()], State::<K>::ZERO);
        for part in &all {
            let state = deposited::<K>(part);
            whole.merge(&state);
            whole.normalise();
            merge_words(&mut words, state.words().as_ref());
            assert_eq!(words, whole.words().as_ref());
            let (encoding, bytes) = K::CODE.value(&words);
            assert_eq!(encoding, whole.value().encoding());
            assert_eq!(bytes, size_of::<K::Element>());
            let mut read = vec![-1; words.len()];
            let mut stored = vec![0; K::CODE.wire_bytes()];
            K::CODE.encode(&words, &mut stored);
            K::CODE.decode(&stored, &mut read).unwrap();
            // Special terms are counted no further.
            assert_eq!((read[0], &read[4..]), (words[0], &words[4..]));
        }
    }

    pub(super) fn a_changed_word_is_found<K: Case>() {
        let mut random = Random(13);
        for ranks in [1, 1 << 20] {
            let state = encoded(&deposited::<K>(&terms::<K>(&mut random, 50)));
            let state: Vec<_> = state.iter().map(|word| word.wrapping_mul(ranks)).collect();
            assert!(decode::<K>(&bytes(&state)).is_ok());
            for place in 0..state.len() {
                let word = state[place];
                let bits = (0..64).map(|bit| word ^ 1 << bit);
                let near = [word.wrapping_add(1), word.wrapping_sub(1), word.wrapping_neg(), 0, -1];
                let other = (0..4).map(|_| random.bits().cast_signed());
                for damaged in bits.chain(near).chain(other).filter(|&other| other != word) {
                    let mut state = state.clone();
                    state[place] = damaged;
                    assert!(decode::<K>(&bytes(&state)).is_err(), "word {place}: {damaged:x}");
                }
            }
        }
    }

    pub(super) fn states_of_other_kinds_are_refused<K: Case>() {
        let state = bytes(&encoded(&State::<K>::ZERO));
        assert_eq!(kind_of(&state), Ok(K::CODE));
        let refused = [
            decode::<Sum<f32>>(&state).err(),
            decode::<Dot<f32>>(&state).err(),
            decode::<Sum<f64>>(&state).err(),
            decode::<Dot<f64>>(&state).err(),
        ];
        let other = Some(WireError::OtherKind { found: K::CODE as u8 });
        for (code, refused) in (1_u8..).zip(refused) {
            assert_eq!(refused, if code == K::CODE as u8 { None } else { other });
        }
    }

    pub(super) fn bytes_of_another_length_are_refused<K: Case>() {
        let state = bytes(&encoded(&State::<K>::ZERO));
        let longer = [&state[..], &[0; 8]].concat();
        for length in (0..state.len()).chain(state.len() + 1..longer.len()) {
            let found = decode::<K>(&longer[..length]).err();
            let expected = match length {
                0..16 => WireError::TooShort { found: length },
                _ => WireError::Length { found: length, expected: state.len() },
            };
            assert_eq!(found, Some(expected));
        }
    }

    pub(super) fn rules_that_a_right_checksum_does_not_hide<K: Case>() {
        let state = encoded(&deposited::<K>(&[K::term(1.0, 1.0)]));
        let error = |place: usize, word: i64| {
            let mut state = state.clone();
            state[place] = word;
            decode::<K>(&bytes(&with_checksum(state))).err()
        };
        assert_eq!(with_checksum(state.clone()), state);
        let magic = 0x7667_0100 | K::CODE as i64;
        assert_eq!(error(0, magic + 0x1_0000), Some(WireError::NotAState));
        assert_eq!(error(0, 0), Some(WireError::NotAState));
        assert_eq!(error(0, magic + 0x100), Some(WireError::Version { found: 2 }));
        assert_eq!(error(0, magic & !0xFF), Some(WireError::OtherKind { found: 0 }));
        assert_eq!(error(0, magic | 0xFF), Some(WireError::OtherKind { found: 0xFF }));
        for found in [0, -1, i64::MIN, MAX_STATES + 1, i64::MAX] {
            assert_eq!(error(1, found), Some(WireError::States { found }));
        }
        assert_eq!(error(1, 2), Some(WireError::NotAState));
        for half in [2, 3] {
            assert_eq!(error(half, -1), Some(WireError::Counts));
            assert_eq!(error(half, 1 << 32), Some(WireError::Counts));
        }
        assert_eq!(error(2, 0xFFFF_FFFF), None);
        assert_eq!(error(3, 0x7FFF_FFFF), None);
        assert_eq!(error(3, 0x8000_0000), Some(WireError::TooManyElements));
        // The state has a sum of one finite element: it cannot be of none, nor of a special one.
        assert_eq!(error(2, 0), Some(WireError::Digits));
        for count in 4..7 {
            assert_eq!(error(count, 2), Some(WireError::Counts));
            assert_eq!(error(count, -1), Some(WireError::Counts));
            assert_eq!(error(count, 1), Some(WireError::Digits));
        }
        let last = state.len() - 2;
        for digit in 7..last {
            assert_eq!(error(digit, 1 << 32), Some(WireError::Digits));
            assert_eq!(error(digit, -1), Some(WireError::Digits));
        }
        for digit in [i64::MAX, i64::MIN, 1 << 32, -1 << 32] {
            assert_eq!(error(last, digit), Some(WireError::Digits));
        }

        let mut two: Vec<_> = state.iter().map(|word| word.wrapping_mul(2)).collect();
        two[0] += 1;
        let found = decode::<K>(&bytes(&with_checksum(two))).err();
        assert_eq!(found, Some(WireError::NotAState));
    }

    /// The words of elements, special terms and a sum, as the table has them.
    fn of<K: Case>(elements: i64, special: [i64; 3], sum: &BigInt) -> Vec<i64> {
        let magic = 0x7667_0100 | K::CODE as i64;
        let halves = [elements & 0xFFFF_FFFF, elements >> 32];
        let words = [magic, 1].into_iter().chain(halves).chain(special);
        with_checksum(words.chain(digits::<K>(sum)).chain([0]).collect())
    }

    pub(super) fn sums_of_any_states_are_right_or_too_large<K: Case>() {
        let largest = BigInt::from(1) << (K::TOP - K::LOW);
        let special = (0..8).map(|bits| [bits & 1, bits >> 1 & 1, bits >> 2]);
        let cases = special.flat_map(|special| {
            [3, 4, 1 << 32, (1 << 32) - 1, 1 << 43, 1 << 60, 1 << 62, i64::MAX]
                .map(|n| (n, special))
        });
        for (elements, special) in cases {
            let finite = elements - special.iter().sum::<i64>();
            let most = &largest * finite;
            for sum in [-&most, &most - 1_u32, most / 3, -BigInt::from(1), BigInt::ZERO] {
                if finite == 0 && sum != BigInt::ZERO {
                    continue;
                }
                let one = of::<K>(elements, special, &sum);
                for ranks in [1, 2, 3, 4, 5, 1000, 1 << 20, MAX_STATES] {
                    let many: Vec<_> = one.iter().map(|word| word.wrapping_mul(ranks)).collect();
                    let read = decode::<K>(&bytes(&many));
                    let Some(elements) = elements.checked_mul(ranks) else {
                        assert_eq!(read.err(), Some(WireError::TooManyElements));
                        continue;
                    };
                    assert_eq!(
                        encoded(&read.unwrap()),
                        of::<K>(elements, special, &(&sum * ranks))
                    );
                }
                for ranks in [MAX_STATES + 1, 1 << 50, i64::MAX] {
                    let many: Vec<_> = one.iter().map(|word| word.wrapping_mul(ranks)).collect();
                    let found = decode::<K>(&bytes(&many)).err();
                    assert_eq!(found, Some(WireError::TooManyStates { found: ranks }));
                }
            }
            let more = [-&largest * finite - 1_u32, &largest * finite + 1_u32];
            for sum in more {
                let refused = decode::<K>(&bytes(&of::<K>(elements, special, &sum))).err();
                assert_eq!(refused, Some(WireError::Digits));
            }
        }
        let none = of::<K>(2, [1; 3], &BigInt::ZERO);
        assert_eq!(decode::<K>(&bytes(&none)).err(), Some(WireError::Counts));
    }
}

#[test]
fn foreign_bytes_are_refused() {
    let mut random = Random(14);
    for length in [0, 8, 16, 152, 224, 608, 1136, 4096] {
        for fill in [0, 0xFF, b' '] {
            assert!(kind_of(&vec![fill; length]).is_err());
        }
        for _ in 0..2000 {
            let bytes: Vec<_> = (0..length).map(|_| random.bits() as u8).collect();
            assert!(kind_of(&bytes).is_err());
        }
    }
}

/// The wire form never changes: files hold states.
#[test]
fn the_words_of_version_1() {
    let state = deposited::<Sum<f32>>(&[1.0, -2_f32.powi(-149), f32::INFINITY]);
    let expected = [
        0x7667_0101,
        1,
        3,
        0,
        0,
        1,
        0, //
        0xFFFF_FFFF,
        0xFFFF_FFFF,
        0xFFFF_FFFF,
        0xFFFF_FFFF,
        0x001F_FFFF,
        0,
        0,
        0,
        0,
        0,
        0,
    ];
    let found = encoded(&state);
    assert_eq!(found[..18], expected);
    assert_eq!(found[18], -2_207_642_831_269_717_923);
    assert_eq!(wire_bytes::<Sum<f32>>(), 152);
    assert_eq!(wire_bytes::<Dot<f32>>(), 224);
    assert_eq!(wire_bytes::<Sum<f64>>(), 608);
    assert_eq!(wire_bytes::<Dot<f64>>(), 1136);
    assert_eq!(MAX_STATES, 1 << 30);
    let codes = [Sum::<f32>::CODE, Dot::<f32>::CODE, Sum::<f64>::CODE, Dot::<f64>::CODE];
    assert_eq!(codes, [Code::SumF32, Code::DotF32, Code::SumF64, Code::DotF64]);
}
