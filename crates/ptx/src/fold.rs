//! Folds: reductions whose states are two words, a value and an index.
//!
//! The value of a float is its key, an integer in the same order: one instruction merges integers, on every device. The
//! key of a NaN wins all merges. With an index, the value is the bits of an f64, in which zeros of both signs are equal.

use crate::halves;
use crate::operation::{constant, quiet_nan};
use crate::placeholder::Placeholder;
use crate::writer::{Class, Operand, Writer, ptx};
use gpuvec_expr::{Element, OutputKind, Program, Reduction, Type};

/// An element of a batch.
pub(crate) struct Item {
    /// The distance of its place from the first element's.
    pub(crate) place: Operand,
    /// The distance of the last element of all, which stands in for those past the end.
    pub(crate) last: Operand,
    /// The values that the reduction takes: two for a dot product, else one.
    pub(crate) values: Vec<Operand>,
}

/// A reduction, and the type of what it reduces.
#[derive(Clone, Copy)]
pub(crate) struct Fold {
    pub(crate) reduction: Reduction,
    /// The type of what is reduced.
    pub(crate) ty: Type,
    /// The type of the least or greatest value in memory, if it is converted: to a float of 16 bits, or to u64.
    pub(crate) converted: Option<Element>,
}

impl Fold {
    /// The fold of a program's only output, if that is a reduction.
    pub(crate) fn of(program: &Program) -> Option<Fold> {
        let [output] = program.outputs() else { return None };
        let converted = output.conversion().map(|_| output.element);
        match output.kind {
            OutputKind::Elementwise => None,
            OutputKind::Reduced { .. } | OutputKind::Grouped { .. } | OutputKind::Single => {
                Some(Fold { reduction: output.reduction()?, ty: output.ty, converted })
            }
        }
    }

    const fn is_float(self) -> bool {
        matches!(self.ty, Type::F32 | Type::F64)
    }

    fn is_minimum(self) -> bool {
        matches!(self.reduction, Reduction::Min | Reduction::ArgMin)
    }

    /// True if it adds integers.
    fn adds(self) -> bool {
        use Reduction::{All, Any, Count, Dot, Sum};
        matches!(self.reduction, Sum | Dot | Any | All | Count)
    }

    /// True if it multiplies integers.
    fn multiplies(self) -> bool {
        self.reduction == Reduction::Prod
    }

    /// True if the value has 64 bits for elements of all integers.
    fn is_wide(self) -> bool {
        self.adds() || self.multiplies()
    }

    /// True if the result is the index of an element, which depends on the elements' order.
    pub(crate) fn has_index(self) -> bool {
        matches!(self.reduction, Reduction::ArgMin | Reduction::ArgMax)
    }

    /// True for an exact sum, whose elements the template adds up.
    pub(crate) fn is_exact(self) -> bool {
        use Reduction::{Dot, Mean, Norm, Sum};
        self.is_float() && matches!(self.reduction, Sum | Dot | Mean | Norm)
    }

    /// True for exact sums of products of f64, which need more registers than others.
    pub(crate) const fn adds_f64_products(self) -> bool {
        matches!((self.reduction, self.ty), (Reduction::Dot | Reduction::Norm, Type::F64))
    }

    /// The state of no elements of a thread's batch: a value, and the distance of the element that has
    /// it from the first one.
    pub(crate) fn begin(self, w: &Writer<'_>, distance: Operand) -> [Operand; 2] {
        let identity = match self.ty {
            Type::F32 | Type::F64 if !self.is_wide() => constant(self.ty, self.infinity()),
            Type::I32 if !self.is_wide() => Operand::from(self.identity() as i32),
            _ => Operand::from(self.identity().cast_signed()),
        };
        [identity, distance].map(|first| w.copy(first))
    }

    /// Adds an element to a thread's state, behind those it has.
    pub(crate) fn add(self, w: &Writer<'_>, [state, place]: [Operand; 2], item: &Item) {
        let ty = self.ty;
        if self.adds() {
            ptx!(w, state, term = self.term(w, item); "add.s64 state, state, term");
        } else if self.multiplies() {
            let factor = self.factor(w, item);
            ptx!(w, state, factor; "mul.lo.s64 state, state, factor");
        } else if self.has_index() {
            let lines = match self.is_minimum() {
                true => "setp.le.T stays, state, value",
                false => "setp.le.T stays, value, state",
            };
            let value = item.values[0];
            let mut stays = ptx!(w, state, value, ty; lines);
            if self.is_float() {
                let lines = "setp.nan.T is_nan, state, state; or.pred either, stays, is_nan";
                stays = ptx!(w, state, stays, ty; lines);
            }
            ptx!(w, state, value, stays, ty; "selp.B state, state, value, stays");
            ptx!(
                w, item = item.place, last = item.last, place, stays;
                "min.s32 distance, item, last; selp.b32 place, place, distance, stays"
            );
        } else {
            let value = item.values[0];
            let lines = match (self.is_float(), self.is_minimum()) {
                (false, true) => "min.T state, state, value",
                (false, false) => "max.T state, state, value",
                (true, true) => {
                    "setp.nan.T is_nan, state, value; min.T state, state, value
                     selp.B state, nan, state, is_nan"
                }
                (true, false) => {
                    "setp.nan.T is_nan, state, value; max.T state, state, value
                     selp.B state, nan, state, is_nan"
                }
            };
            ptx!(w, state, value, nan = quiet_nan(self.ty), ty; lines);
        }
    }

    /// A predicate: false past the end.
    fn is_there(w: &Writer<'_>, item: &Item) -> Operand {
        ptx!(w, place = item.place, last = item.last; "setp.le.s32 is_there, place, last")
    }

    /// The term of an element in a sum or a count: zero if the element is past the end.
    fn term(self, w: &Writer<'_>, item: &Item) -> Operand {
        let mut value = item.values[0];
        if self.reduction == Reduction::All {
            value = ptx!(w, value; "not.pred not, value");
        }
        let lines = match self.ty {
            Type::Bool => "and.pred term, value, is_there",
            _ => "selp.B term, value, 0, is_there",
        };
        let first = ptx!(w, value, is_there = Self::is_there(w, item), ty = self.ty; lines);
        let first = self.wide(w, first);
        let times = |a, &b: &Operand| ptx!(w, a, b = self.wide(w, b); "mul.lo.s64 product, a, b");
        item.values[1..].iter().fold(first, times)
    }

    /// The factor of an element in a product: one if the element is past the end.
    fn factor(self, w: &Writer<'_>, item: &Item) -> Operand {
        let (is_there, value) = (Self::is_there(w, item), self.wide(w, item.values[0]));
        ptx!(w, value, is_there; "selp.b64 factor, value, 1, is_there")
    }

    /// A thread's state as the template has it: a word, and the distance with 64 bits.
    pub(crate) fn words(self, w: &Writer<'_>, [state, place]: [Operand; 2]) -> [Operand; 2] {
        let word = match self.is_wide() {
            true => state,
            false if self.has_keys() => self.key(w, state),
            false => self.wide(w, state),
        };
        [word, ptx!(w, place; "cvt.s64.s32 distance, place")]
    }

    fn wide(self, w: &Writer<'_>, value: Operand) -> Operand {
        match self.ty {
            Type::Bool => ptx!(w, value; "selp.b64 wide, 1, 0, value"),
            Type::I32 => ptx!(w, value; "cvt.s64.s32 wide, value"),
            Type::I64 | Type::U64 => value,
            Type::F32 => ptx!(w, value; "cvt.f64.f32 wide, value; mov.b64 bits, wide"),
            Type::F64 => ptx!(w, value; "mov.b64 bits, value"),
        }
    }

    /// The key of a float.
    fn key(self, w: &Writer<'_>, value: Operand) -> Operand {
        let key = match self.ty {
            Type::F32 => {
                let key = flipped(w, ptx!(w, value; "mov.b32 bits, value"));
                ptx!(w, key; "cvt.s64.s32 wide, key")
            }
            _ => flipped(w, ptx!(w, value; "mov.b64 bits, value")),
        };
        ptx!(w, value, key, key_of_nan = self.key_of_nan(), ty = self.ty; "
            setp.nan.T is_nan, value, value
            selp.b64 of_number, key_of_nan, key, is_nan
        ")
    }

    /// The bits of the float whose key is a word.
    fn bits_of_key(self, w: &Writer<'_>, word: Operand) -> Operand {
        let (key, nan) = match self.ty {
            Type::F32 => {
                let nan = Operand::Constant(Class::B32, f32::NAN.to_bits().into());
                (ptx!(w, word; "cvt.u32.u64 key, word"), nan)
            }
            _ => (word, Operand::Constant(Class::B64, f64::NAN.to_bits())),
        };
        let class = Operand::Class(nan.class());
        ptx!(w, word, bits = flipped(w, key), nan, key_of_nan = self.key_of_nan(), class; "
            setp.eq.s64 is_nan, word, key_of_nan
            selp.B of_number, nan, bits, is_nan
        ")
    }

    /// Writes what a placeholder of the states stands for.
    pub(crate) fn fill(self, text: &mut String, placeholder: Placeholder, operands: &[&str]) {
        let w = &Writer::in_place_of(operands);
        match placeholder {
            Placeholder::Identity => {
                let [value, index] = [0, 1].map(Operand::OfPlaceholder);
                w.assign(value, Operand::from(self.identity().cast_signed()));
                w.assign(index, Operand::from(i64::MAX));
            }
            Placeholder::Merge => self.merge(w),
            Placeholder::State if self.has_index() => self.store_indexed(w),
            Placeholder::State => self.store(w, None),
            Placeholder::Result => match self.reduction {
                Reduction::Any => self.store_truth(w, "setp.ne.s64 is_true, word, 0"),
                Reduction::All => self.store_truth(w, "setp.eq.s64 is_true, word, 0"),
                Reduction::ArgMin | Reduction::ArgMax => {
                    let [place, index] = [0, 2].map(Operand::OfPlaceholder);
                    ptx!(w, place, index; "st.u64 [place], index");
                }
                _ => self.store(w, self.converted),
            },
            _ => unreachable!("no placeholder of a fold"),
        }
        text.push_str("{\n");
        w.finish(text);
        text.push_str("}\n");
    }

    /// True if the values are keys of floats.
    fn has_keys(self) -> bool {
        self.is_float() && matches!(self.reduction, Reduction::Min | Reduction::Max)
    }

    fn key_of_nan(self) -> i64 {
        if self.is_minimum() { i64::MIN } else { i64::MAX }
    }

    fn infinity(self) -> f64 {
        if self.is_minimum() { f64::INFINITY } else { f64::NEG_INFINITY }
    }

    fn identity(self) -> u64 {
        match self.ty {
            _ if self.adds() => 0,
            _ if self.multiplies() => 1,
            // Greater than all keys but a NaN's that may win, or less.
            Type::F32 | Type::F64 if self.has_keys() => (!self.key_of_nan()).cast_unsigned(),
            Type::F32 | Type::F64 => self.infinity().to_bits(),
            Type::I32 if self.is_minimum() => i64::from(i32::MAX).cast_unsigned(),
            Type::I32 => i64::from(i32::MIN).cast_unsigned(),
            _ if self.is_minimum() => i64::MAX.cast_unsigned(),
            _ => i64::MIN.cast_unsigned(),
        }
    }

    /// Merges the states in operands 2, 3 and 4, 5, which may be the registers of the result, 0 and 1.
    fn merge(self, w: &Writer<'_>) {
        let [to, index, a, i, b, j] = [0, 1, 2, 3, 4, 5].map(Operand::OfPlaceholder);
        if !self.has_index() {
            let lines = match self.reduction {
                _ if self.adds() => "add.s64 to, a, b; mov.b64 index, 0",
                _ if self.multiplies() => "mul.lo.s64 to, a, b; mov.b64 index, 0",
                Reduction::Min => "min.s64 to, a, b; mov.b64 index, 0",
                _ => "max.s64 to, a, b; mov.b64 index, 0",
            };
            ptx!(w, to, index, a, b; lines);
            return;
        }
        let [x, y] = [a, b].map(|word| if self.is_float() { w.float_of(word) } else { word });
        let [wins, loses] = [(); 2].map(|()| w.register(Class::Predicate));
        let lines = match self.is_minimum() {
            true => "setp.lt.T wins, y, x; setp.lt.T loses, x, y",
            false => "setp.gt.T wins, y, x; setp.gt.T loses, x, y",
        };
        ptx!(w, x, y, wins, loses, class = Operand::Class(x.class()); lines);
        if self.is_float() {
            ptx!(w, x, y, wins, loses; "
                setp.nan.f64 is_x_nan, x, x
                setp.nan.f64 is_y_nan, y, y
                not.pred is_number, is_x_nan
                and.pred first_nan, is_number, is_y_nan
                or.pred wins, wins, first_nan
                not.pred is_number, is_y_nan
                and.pred first_nan, is_number, is_x_nan
                or.pred loses, loses, first_nan
            ");
        }
        // The second state wins by its value, or by a smaller index if the first one does not win.
        ptx!(w, to, index, a, i, b, j, wins, loses; "
            setp.lt.s64 is_before, j, i
            not.pred stays, loses
            and.pred is_before, is_before, stays
            or.pred is_second, wins, is_before
            selp.b64 value, b, a, is_second
            selp.b64 place, j, i, is_second
            mov.b64 to, value
            mov.b64 index, place
        ");
    }

    /// Stores the value and the index in operands 1 and 2 at the address in operand 0.
    fn store_indexed(self, w: &Writer<'_>) {
        let [place, word, index] = [0, 1, 2].map(Operand::OfPlaceholder);
        let lines = match self.ty {
            Type::F32 => {
                "mov.b64 wide, word
                 cvt.rn.f32.f64 value, wide
                 setp.nan.f32 is_nan, value, value
                 selp.f32 value, 0f7FC00000, value, is_nan
                 mov.b32 bits, value
                 cvt.u64.u32 wide_bits, bits
                 st.u64 [place], wide_bits"
            }
            Type::F64 => {
                "mov.b64 wide, word
                 setp.nan.f64 is_nan, wide, wide
                 selp.f64 value, 0d7FF8000000000000, wide, is_nan
                 st.f64 [place], value"
            }
            Type::I32 => "and.b64 low, word, 0xFFFFFFFF; st.u64 [place], low",
            _ => "st.u64 [place], word",
        };
        ptx!(w, place, word, wide = w.register(Class::F64); lines);
        ptx!(w, place, index; "st.u64 [place+8], index");
    }

    /// Stores a bool at the address in operand 0: the predicate that the lines make of the word in operand 1.
    fn store_truth(self, w: &Writer<'_>, lines: &str) {
        let [place, word] = [0, 1].map(Operand::OfPlaceholder);
        let is_true = ptx!(w, word; lines);
        ptx!(w, is_true, place; "selp.b32 byte, 1, 0, is_true; st.u8 [place], byte");
    }

    /// Stores the value in operand 1 at the address in operand 0, converted to an element.
    fn store(self, w: &Writer<'_>, converted: Option<Element>) {
        let [place, word] = [0, 1].map(Operand::OfPlaceholder);
        let value = if self.has_keys() { self.bits_of_key(w, word) } else { word };
        let (lines, value) = match (converted, self.ty) {
            (Some(Element::F16), _) => {
                ("st.u16 [place], value", halves::f16_bits(w, w.float_of(value)))
            }
            (Some(Element::Bf16), _) => {
                ("st.u16 [place], value", halves::bf16_bits(w, w.float_of(value)))
            }
            // The order of i64 becomes the order of u64.
            (Some(_), _) => {
                ("xor.b64 flipped, value, 0x8000000000000000; st.u64 [place], flipped", value)
            }
            (None, Type::F32) if self.has_keys() => ("st.u32 [place], value", value),
            (None, Type::I32) if !self.is_wide() => {
                ("cvt.u32.u64 low, value; st.u32 [place], low", value)
            }
            _ => ("st.u64 [place], value", value),
        };
        ptx!(w, place, value; lines);
    }
}

/// An integer, whose bits below the sign are inverted if it is negative: a key from a float's bits, or the other way round.
fn flipped(w: &Writer<'_>, bits: Operand) -> Operand {
    let below = match bits.class() {
        Class::B32 => Operand::from(i32::MAX),
        _ => Operand::from(i64::MAX),
    };
    ptx!(w, bits, below, class = Operand::Class(bits.class()); "
        setp.lt.T is_negative, bits, 0
        xor.B inverted, bits, below
        selp.B flipped, inverted, bits, is_negative
    ")
}
