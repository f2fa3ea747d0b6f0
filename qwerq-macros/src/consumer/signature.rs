//! What the function of a consumer looks like: which argument is the message, which are made from the delivery, what it returns. Judges the
//! form; whether the types will do is asked of the compiler, on the user's own tokens.

use syn::{FnArg, ItemFn, ReturnType, Safety, Type};

use crate::mistakes::{Mistakes, code};

/// Arguments at most; as many as `ConsumerFn` of the crate `qwerq` is implemented for.
const ARGUMENTS_MAX: usize = 8;

/// Types that stand after the message, as they are usually called.
const AFTER_THE_MESSAGE: &[&str] = &["Ctx", "State", "Headers"];

pub(crate) struct Signature {
    /// The type of the message.
    pub(crate) message: Type,
    /// The types of the other arguments.
    pub(crate) others: Vec<Type>,
    /// The type that it returns.
    pub(crate) output: Type,
}

impl Signature {
    /// Reads a function's signature; `None` after a mistake.
    pub(crate) fn read(function: &ItemFn, mistakes: &mut Mistakes) -> Option<Signature> {
        let mut found = Mistakes::default();
        let signature = &function.sig;
        if signature.asyncness.is_none() {
            found.on(&signature.fn_token, "a consumer is an async function: write `async fn`");
        }
        if let Some(constness) = &signature.constness {
            found.on(constness, "a consumer cannot be const");
        }
        if let Safety::Unsafe(token) = &signature.safety {
            found.on(token, "a consumer cannot be unsafe: a worker calls it");
        }
        if let Some(abi) = &signature.abi {
            found.on(abi, "a consumer has no ABI of its own");
        }
        if !signature.generics.params.is_empty() || signature.generics.where_clause.is_some() {
            found.on(&signature.generics, "a consumer cannot be generic: the worker that calls it needs one message type");
        }
        if let Some(variadic) = &signature.variadic {
            found.on(variadic, "a consumer has a fixed number of arguments");
        }
        let mut types = Vec::new();
        for input in &signature.inputs {
            match input {
                FnArg::Receiver(receiver) => {
                    found.on(receiver, "a consumer is a free function; take what it needs as `State<T>`, given to `App::state`");
                }
                FnArg::Typed(argument) => match &*argument.ty {
                    Type::Reference(reference) => {
                        let inner = code(&reference.elem);
                        found.on(&argument.ty, format!("a consumer owns its arguments: take `{inner}`, without the reference"));
                    }
                    Type::ImplTrait(_) => found.on(&argument.ty, "a consumer cannot be generic: name the type"),
                    argument => types.push(argument.clone()),
                },
            }
        }
        if signature.inputs.is_empty() {
            found.on(&signature.ident, "a consumer takes the message as its first argument");
        }
        if types.len() > ARGUMENTS_MAX {
            let what = format!("a consumer has at most {ARGUMENTS_MAX} arguments; put several into one struct that implements `FromCtx`");
            found.on(&types[ARGUMENTS_MAX], what);
        }
        if let Some(first) = types.first()
            && let Some(name) = last_segment(first).filter(|name| AFTER_THE_MESSAGE.contains(&name.as_str()))
        {
            found.on(first, format!("the message comes first, then `{name}`"));
        }
        let output = match &signature.output {
            ReturnType::Type(_, output) => Some((**output).clone()),
            ReturnType::Default => {
                found.on(&signature.ident, "a consumer says how it went: let it return `Result<(), E>`");
                None
            }
        };
        let (valid, mut types) = (found.is_empty(), types.into_iter());
        mistakes.extend(found);
        let message = types.next().filter(|_| valid)?;
        Some(Signature { message, others: types.collect(), output: output? })
    }

    /// Whether the message is taken as bytes, so that no contract speaks of its type.
    pub(crate) fn is_raw(&self) -> bool {
        last_segment(&self.message).is_some_and(|name| name == "Raw")
    }
}

/// `State` of `qwerq::State<Ledger>`.
fn last_segment(argument: &Type) -> Option<String> {
    match argument {
        Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
        _ => None,
    }
}
