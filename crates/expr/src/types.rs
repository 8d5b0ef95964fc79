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
    /// IEEE 754's binary32.
    F32,
    /// IEEE 754's binary64.
    F64,
}

impl Type {
    /// Every type.
    pub const ALL: [Type; 5] = [Type::Bool, Type::I32, Type::I64, Type::F32, Type::F64];

    /// The type's name, which is also that of the cast to it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Type::Bool => "bool",
            Type::I32 => "i32",
            Type::I64 => "i64",
            Type::F32 => "f32",
            Type::F64 => "f64",
        }
    }

    /// The type of an element that stores such a value, as outputs do.
    #[must_use]
    pub const fn element(self) -> Element {
        match self {
            Type::Bool => Element::Bool,
            Type::I32 => Element::I32,
            Type::I64 => Element::I64,
            Type::F32 => Element::F32,
            Type::F64 => Element::F64,
        }
    }

    /// The size of a value.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.element().bytes()
    }

    /// Says whether it is i32 or i64.
    #[must_use]
    pub const fn is_integer(self) -> bool {
        matches!(self, Type::I32 | Type::I64)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

macro_rules! elements {
    ($($element:ident $name:literal $bytes:literal => $widened:ident as $class:expr;)+) => {
        /// The type of an array's elements in memory.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Element {
            $(#[doc = concat!("`", $name, "`.")] $element,)+
        }

        impl Element {
            /// Every type of element.
            pub const ALL: &[Element] = &[$(Element::$element,)+];

            /// The type's name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Element::$element => $name,)+ }
            }

            /// The size of an element.
            #[must_use]
            pub const fn bytes(self) -> usize {
                match self { $(Element::$element => $bytes,)+ }
            }

            /// The type of the value that is loaded.
            #[must_use]
            pub const fn widened(self) -> Type {
                match self { $(Element::$element => Type::$widened,)+ }
            }

            /// The promotion class of an input of this type.
            pub(crate) const fn class(self) -> Class {
                match self { $(Element::$element => $class,)+ }
            }
        }
    };
}

elements! {
    Bool "bool" 1 => Bool as Class::Of(Type::Bool);
    U8 "u8" 1 => I32 as Class::Short;
    I8 "i8" 1 => I32 as Class::Short;
    U16 "u16" 2 => I32 as Class::Short;
    I16 "i16" 2 => I32 as Class::Short;
    U32 "u32" 4 => I64 as Class::Of(Type::I64);
    I32 "i32" 4 => I32 as Class::Of(Type::I32);
    I64 "i64" 8 => I64 as Class::Of(Type::I64);
    F32 "f32" 4 => F32 as Class::Of(Type::F32);
    F64 "f64" 8 => F64 as Class::Of(Type::F64);
}

/// An operand, as far as promotion needs to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// A Python integer, which takes the type of its partner.
    WeakInt,
    /// A Python float, which takes the type of a float that is its partner.
    WeakFloat,
    /// An input of 8 or 16 bits, widened to i32: every value of it is an f32.
    Short,
    /// A value of a type.
    Of(Type),
}

impl Class {
    /// The type in which such a value is computed, if no partner decides otherwise.
    pub(crate) const fn value_type(self) -> Type {
        match self {
            Class::WeakInt => Type::I64,
            Class::WeakFloat => Type::F64,
            Class::Short => Type::I32,
            Class::Of(ty) => ty,
        }
    }

    pub(crate) const fn is_weak(self) -> bool {
        matches!(self, Class::WeakInt | Class::WeakFloat)
    }

    /// The class of what `classes` have in common. Python's numbers come last, since those yield
    /// to every number that has a type.
    pub(crate) fn common(classes: impl Iterator<Item = Class> + Clone) -> Class {
        let typed = classes.clone().filter(|class| !class.is_weak());
        let weak = classes.filter(|class| class.is_weak());
        typed.chain(weak).reduce(Class::promote).unwrap_or(Class::WeakInt)
    }

    fn promote(self, other: Class) -> Class {
        use Class::{Of, Short, WeakFloat, WeakInt};
        use Type::{Bool, F32, F64, I64};
        match (self, other) {
            (a, b) if a == b => a,
            (Of(Bool), WeakInt) => Of(I64),
            (Of(Bool), WeakFloat) => Of(F64),
            (Of(Bool), class) | (class, Of(Bool) | WeakInt) | (WeakInt, class) => class,
            (Of(F32), WeakFloat | Short) | (Short, Of(F32)) => Of(F32),
            (Short, Of(ty)) | (Of(ty), Short) => Of(ty),
            (Of(a), Of(b)) if a.is_integer() && b.is_integer() => Of(I64),
            _ => Of(F64),
        }
    }

    /// The class in which functions of floats compute.
    pub(crate) const fn float(self) -> Class {
        match self {
            Class::WeakInt => Class::WeakFloat,
            Class::Short => Class::Of(Type::F32),
            Class::Of(Type::I32 | Type::I64) => Class::Of(Type::F64),
            class => class,
        }
    }

    /// The class of a quotient: as NumPy's, f64 for integers of any size.
    pub(crate) const fn quotient(self) -> Class {
        match self {
            Class::Short => Class::Of(Type::F64),
            class => class.float(),
        }
    }
}
