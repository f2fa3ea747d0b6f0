//! A method of a service: its name, its request, its reply. Judges the form of the signature; the types are compared with the contract by
//! the compiler.

use syn::ext::IdentExt;
use syn::{Attribute, FnArg, GenericArgument, Ident, Pat, PathArguments, ReceiverKind, ReturnType, TraitItemFn, Type};

use crate::mistakes::Mistakes;

pub(crate) struct Method {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) name: Ident,
    /// The request's pattern and type.
    pub(crate) request: (Pat, Type),
    /// The pattern and type of an argument `CallInfo`.
    pub(crate) info: Option<(Pat, Type)>,
    pub(crate) reply: Type,
    /// The type that it returns, as the user wrote it.
    pub(crate) output: Type,
}

impl Method {
    /// Reads a method; `None` after a mistake.
    pub(crate) fn read(method: &TraitItemFn, mistakes: &mut Mistakes) -> Option<Method> {
        let mut found = Mistakes::default();
        let signature = &method.sig;
        let name = &signature.ident;
        if signature.asyncness.is_none() {
            found.on(&signature.fn_token, "a method of a service is async: write `async fn`");
        }
        if let Some(body) = &method.default {
            found.on(body, "a method of a service has no body here; write it where the trait is implemented");
        }
        if !signature.generics.params.is_empty() || signature.generics.where_clause.is_some() {
            found.on(&signature.generics, "a method of a service cannot be generic: its contract has one request type");
        }
        let mut inputs = signature.inputs.iter();
        let mut arguments = Vec::new();
        match inputs.next() {
            Some(FnArg::Receiver(receiver)) if matches!(&receiver.kind, ReceiverKind::Reference(_, _, None)) => {}
            Some(FnArg::Receiver(receiver)) => found.on(receiver, "many calls are answered at once: take `&self`"),
            Some(other) => {
                found.on(other, "a method of a service takes `&self` first");
                arguments.extend(argument(other));
            }
            None => found.on(name, format!("a method of a service takes `&self` and the request: `async fn {name}(&self, request: ..)`")),
        }
        arguments.extend(inputs.filter_map(argument));
        if let Some((_, extra)) = arguments.get(2) {
            found.on(extra, "a method of a service takes the request and, at most, `CallInfo`");
        }
        let mut arguments = arguments.into_iter();
        let (request, info) = (arguments.next(), arguments.next());
        match &request {
            None if signature.receiver().is_some() => {
                found.on(name, "a method of a service takes a request: a message, even if it is empty")
            }
            Some((_, reference @ Type::Reference(_))) => found.on(reference, "the request is taken by value, without the reference"),
            _ => {}
        }
        let output = match &signature.output {
            ReturnType::Type(_, output) => Some((**output).clone()),
            ReturnType::Default => None,
        };
        let reply = output.as_ref().and_then(ok_type);
        match (&output, &reply) {
            (None, _) => found.on(name, "a method of a service returns `Result<Reply, Status>`"),
            (Some(output), None) => found.on(output, "a method of a service returns `Result<Reply, Status>`"),
            _ => {}
        }
        let valid = found.is_empty();
        mistakes.extend(found);
        let (request, reply, output) = (request.filter(|_| valid)?, reply?, output?);
        Some(Method { attributes: method.attrs.clone(), name: name.clone(), request, info, reply, output })
    }

    /// The queue of its calls.
    pub(crate) fn queue(&self, service: &str) -> String {
        format!("{service}.{}", self.name.unraw())
    }
}

fn argument(input: &FnArg) -> Option<(Pat, Type)> {
    match input {
        FnArg::Typed(argument) => Some(((*argument.pat).clone(), (*argument.ty).clone())),
        FnArg::Receiver(_) => None,
    }
}

/// `Quote` of `Result<Quote, Status>`.
fn ok_type(output: &Type) -> Option<Type> {
    let Type::Path(path) = output else { return None };
    let PathArguments::AngleBracketed(arguments) = &path.path.segments.last()?.arguments else { return None };
    match arguments.args.first()? {
        GenericArgument::Type(reply) => Some(reply.clone()),
        _ => None,
    }
}
