//! The rules of compatibility: one stable id each, what it is about, and what to do instead.
//!
//! docs/compatibility.md has a section for every id; broker/tests/compatibility compares the two.

use std::fmt;

macro_rules! rules {
    ($($name:ident = $id:literal, $what:literal, $instead:literal;)*) => {
        /// A change of a contract that somebody may not survive.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule {
            $(#[doc = $what] $name,)*
        }

        impl Rule {
            /// Every rule.
            pub const ALL: &'static [Rule] = &[$(Rule::$name,)*];

            /// The stable id, also the heading of its section in docs/compatibility.md.
            #[must_use]
            pub fn id(self) -> &'static str {
                match self { $(Rule::$name => $id,)* }
            }

            /// One sentence: what has changed.
            #[must_use]
            pub fn what(self) -> &'static str {
                match self { $(Rule::$name => $what,)* }
            }

            /// How to reach the same without breaking anybody.
            #[must_use]
            pub fn instead(self) -> &'static str {
                match self { $(Rule::$name => $instead,)* }
            }
        }
    };
}

rules! {
    FieldNumberNotReserved = "field-number-not-reserved",
        "A field was removed and its number is free for another meaning.",
        "reserve the number and the name of the removed field";
    FieldNameNotReserved = "field-name-not-reserved",
        "A field was removed and its name is free for another meaning in JSON.",
        "reserve the name of the removed field too";
    FieldRemoved = "field-removed",
        "A field was removed; code that uses it no longer compiles.",
        "keep the field and mark it `deprecated`";
    FieldRenumbered = "field-renumbered",
        "A field has another number.",
        "keep the number; for another meaning add a field with a new name and number";
    FieldRenamed = "field-renamed",
        "A field has another name.",
        "keep the name, or add a field and deprecate this one";
    JsonNameChanged = "json-name-changed",
        "A field has another name in JSON.",
        "keep the `json_name`";
    FieldTypeIncompatible = "field-type-incompatible",
        "A field has a type that reads other bytes.",
        "add a field of the new type under a new number and deprecate this one";
    FieldJsonIncompatible = "field-json-incompatible",
        "A field has a type that is the same on the wire and another in JSON.",
        "add a field of the new type under a new number and deprecate this one";
    FieldTypeChanged = "field-type-changed",
        "A field has another type in generated code.",
        "keep the type, or add a field of the new type";
    FieldCardinalityChanged = "field-cardinality-changed",
        "A field became repeated or singular.",
        "add a field beside this one under a new number";
    PresenceChanged = "presence-changed",
        "A field gained or lost the difference between unset and default.",
        "leave `optional` as it is";
    RequiredAdded = "required-added",
        "A field is required that was not.",
        "make it optional and check it where it is used";
    RequiredRemoved = "required-removed",
        "A field is no longer required, and old readers refuse messages without it.",
        "keep it required until no old reader is left, then register with --force";
    OneofJoined = "oneof-joined",
        "Fields that could be set together now exclude each other.",
        "keep the field outside, and add a new member to the oneof";
    OneofLeft = "oneof-left",
        "Fields that excluded each other can now be set together.",
        "keep the field in its oneof";
    OneofChanged = "oneof-changed",
        "A field is in another oneof in generated code.",
        "keep the oneof and its name";
    DefaultChanged = "default-changed",
        "An unset field means another value.",
        "keep the default";
    MessageTypeReplaced = "message-type-replaced",
        "A message type of another name and shape took the place.",
        "keep the type and change it by its own rules, or add a field of the new type";
    TypeRenamed = "type-renamed",
        "A type has another full name in generated code.",
        "keep name and package";
    JsonFormChanged = "json-form-changed",
        "A well-known type with a JSON form of its own was replaced, or replaces another type.",
        "add a field of the new type under a new number and deprecate this one";
    EnumValueNumberNotReserved = "enum-value-number-not-reserved",
        "An enum value was removed and its number is free for another meaning.",
        "reserve the number and the name of the removed value";
    EnumValueNameNotReserved = "enum-value-name-not-reserved",
        "An enum value was removed and its name is free for another meaning in JSON.",
        "reserve the name of the removed value too";
    EnumValueRemoved = "enum-value-removed",
        "An enum value was removed; code that uses it no longer compiles.",
        "keep the value and mark it `deprecated`";
    EnumValueRenumbered = "enum-value-renumbered",
        "An enum value has another number.",
        "keep the number; for another meaning add a value";
    EnumValueRenamed = "enum-value-renamed",
        "The number of an enum value has another name, which is what JSON writes.",
        "keep the name; with `allow_alias` a new name may come after it";
    EnumOpennessChanged = "enum-openness-changed",
        "An enum that keeps unknown numbers no longer does, or the other way round.",
        "keep the file's syntax, or the enum's `enum_type` feature";
    ReservedNumberReleased = "reserved-number-released",
        "A number that was reserved is so no longer.",
        "keep the reservation and use another number";
    ReservedNameReleased = "reserved-name-released",
        "A name that was reserved is so no longer.",
        "keep the reservation and use another name";
    ExtensionRangeRemoved = "extension-range-removed",
        "Numbers that others may extend the message with are gone.",
        "keep the extension range";
    MessageSetChanged = "message-set-changed",
        "The message became a message set, or is one no longer.",
        "keep `message_set_wire_format` as it is";
    ReplyTypeRemoved = "reply-type-removed",
        "The contract has no reply type any more, so the queue cannot be called.",
        "register with the reply type: --reply TYPE";
    JsTypeChanged = "jstype-changed",
        "A 64-bit field has another type in generated TypeScript.",
        "keep `jstype` as it is";
    StringBecameBytes = "string-became-bytes",
        "Warning: readers of the old version refuse a value that is not UTF-8.",
        "write UTF-8 until no old reader is left";
    IntegerNarrowed = "integer-narrowed",
        "Warning: one side cuts values that only the other can hold.",
        "stay in the smaller range until the other side is gone";
    ClosedEnumValueAdded = "closed-enum-value-added",
        "Warning: readers of the old version take the new value of a closed enum for unset.",
        "bring the readers up to date before anybody writes the value";
}

impl Rule {
    /// Whether it never refuses.
    #[must_use]
    pub fn is_warning(self) -> bool {
        matches!(self, Rule::StringBecameBytes | Rule::IntegerNarrowed | Rule::ClosedEnumValueAdded)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}
