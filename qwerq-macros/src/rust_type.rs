//! The Rust type of a field, as far as its text shows it: what wraps it, and what is inside.
//!
//! A macro sees text, so an alias hides what it stands for; the compiler looks behind it later.

use syn::{GenericArgument, PathArguments, Type};

/// What is around the type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrapper {
    Plain,
    Option,
    Vec,
    /// `HashMap`.
    Map,
}

/// A field's type taken apart.
pub(crate) struct RustType<'t> {
    pub(crate) wrapper: Wrapper,
    /// The keys of a map.
    pub(crate) key: Option<&'t Type>,
    /// The type of the value, without `Box`.
    pub(crate) inner: &'t Type,
    pub(crate) boxed: bool,
}

impl<'t> RustType<'t> {
    /// Takes a type apart. `Vec<u8>` is bytes and stays whole.
    pub(crate) fn of(ty: &'t Type) -> RustType<'t> {
        let (wrapper, key, inner) = match generic(ty) {
            Some((name, arguments)) => match (&*name, &*arguments) {
                ("Option", [inner]) => (Wrapper::Option, None, *inner),
                ("Vec", [inner]) if name_of(inner).as_deref() != Some("u8") => (Wrapper::Vec, None, *inner),
                ("HashMap" | "BTreeMap", [key, value]) => (Wrapper::Map, Some(*key), *value),
                _ => (Wrapper::Plain, None, ty),
            },
            None => (Wrapper::Plain, None, ty),
        };
        match generic(inner) {
            Some((name, arguments)) if name == "Box" && arguments.len() == 1 => RustType { wrapper, key, inner: arguments[0], boxed: true },
            _ => RustType { wrapper, key, inner, boxed: false },
        }
    }
}

/// The last name of a path without generics, such as `i64` or `String`.
pub(crate) fn name_of(ty: &Type) -> Option<String> {
    let Type::Path(path) = ungrouped(ty) else { return None };
    let last = path.path.segments.last()?;
    matches!(last.arguments, PathArguments::None).then(|| last.ident.to_string())
}

/// Whether it is `Vec<u8>`.
pub(crate) fn is_byte_vec(ty: &Type) -> bool {
    generic(ty).is_some_and(|(name, arguments)| name == "Vec" && arguments.len() == 1 && name_of(arguments[0]).as_deref() == Some("u8"))
}

/// Whether the name belongs to the language or its library, so that it is no alias of something else.
pub(crate) fn is_builtin(ty: &Type) -> bool {
    const BUILTIN: [&str; 20] = [
        "bool",
        "char",
        "f32",
        "f64",
        "i8",
        "i16",
        "i32",
        "i64",
        "i128",
        "isize",
        "u8",
        "u16",
        "u32",
        "u64",
        "u128",
        "usize",
        "str",
        "String",
        "Duration",
        "SystemTime",
    ];
    match ungrouped(ty) {
        Type::Path(_) => generic(ty).is_some() || name_of(ty).is_some_and(|name| BUILTIN.contains(&&*name)),
        _ => true,
    }
}

/// The last name of a path and its type arguments.
fn generic(ty: &Type) -> Option<(String, Vec<&Type>)> {
    let Type::Path(path) = ungrouped(ty) else { return None };
    let last = path.path.segments.last()?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    let types = arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    });
    Some((last.ident.to_string(), types.collect()))
}

/// Types that come out of `macro_rules!` are wrapped in invisible groups.
fn ungrouped(mut ty: &Type) -> &Type {
    while let Type::Group(group) = ty {
        ty = &group.elem;
    }
    ty
}
