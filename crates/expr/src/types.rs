//! Types, and NumPy 2's promotion of them (NEP 50).

use std::fmt;

/// The type of a node's value: a type in which programs compute. [`Element`] is a type in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// True or false.
    Bool,
    /// An integer of 32 bits, which wraps.
    I32,
    /// An integer of 64 bits, which wraps.
    I64,
    /// An unsigned integer of 64 bits, which wraps. Programs compare its values as values of i64 in the same order, and
    /// cast f32 to it by way of f64.
    U64,
    /// IEEE 754's binary32.
    F32,
    /// IEEE 754's binary64.
    F64,
}

impl Type {
    /// Every type.
    pub const ALL: [Type; 6] = [Type::Bool, Type::I32, Type::I64, Type::U64, Type::F32, Type::F64];

    /// The type's name, which is also the name of the cast to it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.element().name()
    }

    /// The element type that stores values of the type.
    #[must_use]
    pub const fn element(self) -> Element {
        match self {
            Type::Bool => Element::Bool,
            Type::I32 => Element::I32,
            Type::I64 => Element::I64,
            Type::U64 => Element::U64,
            Type::F32 => Element::F32,
            Type::F64 => Element::F64,
        }
    }

    /// The size of a value.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.element().bytes()
    }

    /// True for integers.
    #[must_use]
    pub const fn is_integer(self) -> bool {
        matches!(self, Type::I32 | Type::I64 | Type::U64)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

macro_rules! elements {
    ($($element:ident $name:literal $bytes:literal => $widened:ident;)+) => {
        /// The type of an array's elements in memory.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Element {
            $(#[doc = concat!("`", $name, "`.")] $element,)+
        }

        impl Element {
            /// Every type of element.
            pub const ALL: &[Element] = &[$(Element::$element,)+];

            /// The type's name. Not inlined, since that would copy the names.
            #[must_use]
            #[inline(never)]
            pub const fn name(self) -> &'static str {
                match self { $(Element::$element => $name,)+ }
            }

            /// The size of an element.
            #[must_use]
            pub const fn bytes(self) -> usize {
                match self { $(Element::$element => $bytes,)+ }
            }

            /// The type of the values into which the elements are widened when they are loaded.
            #[must_use]
            pub const fn widened(self) -> Type {
                match self { $(Element::$element => Type::$widened,)+ }
            }
        }
    };
}

elements! {
    Bool "bool" 1 => Bool;
    U8 "u8" 1 => I32;
    I8 "i8" 1 => I32;
    U16 "u16" 2 => I32;
    I16 "i16" 2 => I32;
    U32 "u32" 4 => I64;
    I32 "i32" 4 => I32;
    I64 "i64" 8 => I64;
    U64 "u64" 8 => U64;
    F16 "f16" 2 => F32;
    Bf16 "bf16" 2 => F32;
    F32 "f32" 4 => F32;
    F64 "f64" 8 => F64;
}

impl Element {
    /// True if results may have this type. The language has a cast to it. Only inputs have the other types.
    #[must_use]
    pub const fn is_of_results(self) -> bool {
        self.is_half() || self as u8 == self.widened().element() as u8
    }

    /// True for floats of 16 bits. They are computed as f32, and rounded when they are stored.
    #[must_use]
    pub const fn is_half(self) -> bool {
        matches!(self, Element::F16 | Element::Bf16)
    }

    /// The type of results that are computed from such values.
    const fn computed(self) -> Element {
        if self.is_half() { self } else { self.widened().element() }
    }

    const fn is_narrow(self) -> bool {
        matches!(self, Element::U8 | Element::I8 | Element::U16 | Element::I16)
    }

    const fn is_unsigned(self) -> bool {
        matches!(self, Element::U8 | Element::U16 | Element::U32 | Element::U64)
    }

    /// NumPy's promotion, except for two types of integers of less than 32 bits. Their common type is the wider one,
    /// with values that are computed as i32.
    fn promote(self, other: Element) -> Element {
        use Element::{Bool, F32, F64, I64, U64};
        let is_integer = |element: Element| element.widened().is_integer();
        match (self, other) {
            (a, b) if a == b => a,
            (Bool, a) | (a, Bool) => a,
            (U64, a) | (a, U64) if a.is_unsigned() => U64,
            (U64, a) | (a, U64) if is_integer(a) => F64,
            (a, b) if a.is_narrow() && b.is_narrow() && a.bytes() < b.bytes() => b,
            (a, b) if a.is_narrow() && b.is_narrow() => a,
            // A float of more bits holds any narrow integer.
            (a, half) | (half, a) if a.is_narrow() && half.is_half() && a.bytes() == 1 => half,
            (a, half) | (half, a) if a.is_narrow() && half.is_half() => F32,
            (narrow, a) | (a, narrow) if narrow.is_narrow() => a,
            (a, b) if is_integer(a) && is_integer(b) => I64,
            (a, b) if is_integer(a) || is_integer(b) || a == F64 || b == F64 => F64,
            _ => F32,
        }
    }
}

/// The properties of an operand that promotion depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// A Python integer, which takes the type of the other operand.
    WeakInt,
    /// A Python float, which takes the type of the other operand if that is a float.
    WeakFloat,
    /// A value of a NumPy type.
    Of(Element),
}

impl Class {
    pub(crate) const BOOL: Class = Class::Of(Element::Bool);

    /// The class of values that are computed in a type.
    pub(crate) const fn of(ty: Type) -> Class {
        Class::Of(ty.element())
    }

    /// The class of results that are computed from such values.
    pub(crate) const fn computed(self) -> Class {
        match self {
            Class::Of(element) => Class::Of(element.computed()),
            weak => weak,
        }
    }

    /// The type of such a value in memory, unless another operand decides it.
    pub(crate) const fn element(self) -> Element {
        match self {
            Class::WeakInt => Element::I64,
            Class::WeakFloat => Element::F64,
            Class::Of(element) => element.computed(),
        }
    }

    /// The type in which such a value is computed, unless another operand decides it.
    pub(crate) const fn value_type(self) -> Type {
        self.element().widened()
    }

    /// True for integers that may be negative.
    pub(crate) const fn is_signed(self) -> bool {
        match self {
            Class::WeakInt => true,
            Class::WeakFloat => false,
            Class::Of(element) => element.widened().is_integer() && !element.is_unsigned(),
        }
    }

    pub(crate) const fn is_weak(self) -> bool {
        matches!(self, Class::WeakInt | Class::WeakFloat)
    }

    /// The common class of several. Python's numbers come last, since they take the type of any other number.
    pub(crate) fn common(classes: impl Iterator<Item = Class> + Clone) -> Class {
        let typed = classes.clone().filter(|class| !class.is_weak());
        let weak = classes.filter(|class| class.is_weak());
        typed.chain(weak).reduce(Class::promote).unwrap_or(Class::WeakInt)
    }

    fn promote(self, other: Class) -> Class {
        use Class::{Of, WeakFloat, WeakInt};
        match (self, other) {
            (Of(a), Of(b)) => Of(a.promote(b)),
            (Of(Element::Bool), WeakInt) => Of(Element::I64),
            (class, WeakInt) | (WeakInt, class) => class,
            (Of(element), WeakFloat) | (WeakFloat, Of(element)) => match element.widened() {
                Type::F32 | Type::F64 => Of(element),
                _ => Of(Element::F64),
            },
            (WeakFloat, WeakFloat) => WeakFloat,
        }
    }

    /// The class in which functions of floats compute.
    pub(crate) const fn float(self) -> Class {
        match self {
            Class::WeakInt => Class::WeakFloat,
            Class::Of(element) if element.is_narrow() => Class::Of(Element::F32),
            Class::Of(element) if element.widened().is_integer() => Class::Of(Element::F64),
            class => class,
        }
    }

    /// The class of a quotient: f64 for integers of any size, as in NumPy.
    pub(crate) const fn quotient(self) -> Class {
        match self {
            Class::Of(element) if element.is_narrow() => Class::Of(Element::F64),
            class => class.float(),
        }
    }
}
