//! A queue's options between the wire, where each may be absent, and the core, where each has a value.

use qwerq_core::QueueOptions;
use qwerq_core::options::{Compatibility, Mode, OnFull, SchemaMode, UnknownWord};
use qwerq_proto::{ErrorCode, FRAME_OVERHEAD_BYTES, MAX_FRAME_BYTES, wire};

/// `base` with what is given on top. A new stream has no message limit and drops its oldest, unless it says otherwise.
///
/// # Errors
/// `invalid-argument`, naming the option and what it takes.
pub fn merged(base: &QueueOptions, given: &wire::QueueOptions, is_new: bool) -> Result<QueueOptions, wire::Error> {
    let mut options = base.clone();
    let word = |error: UnknownWord| ErrorCode::InvalidArgument.with(error.to_string());
    if let Some(text) = &given.mode {
        options.mode = text.parse().map_err(word)?;
    }
    if is_new && options.mode == Mode::Stream {
        options.max_messages = 0;
        options.on_full = OnFull::DropOldest;
    }
    macro_rules! take {
        ($($field:ident),*) => { $(if let Some(value) = given.$field { options.$field = value; })* };
    }
    macro_rules! take_word {
        ($($field:ident),*) => { $(if let Some(text) = &given.$field { options.$field = text.parse().map_err(word)?; })* };
    }
    take!(
        visibility_timeout_ms,
        max_deliveries,
        retry_backoff_first_ms,
        retry_backoff_max_ms,
        max_messages,
        max_bytes,
        max_age_ms,
        dedup_window_ms,
        dedup_max_keys,
        message_ttl_ms,
        delay_ms,
        group_expiry_ms,
        max_unsettled
    );
    take_word!(on_failure, on_invalid, on_full, on_expiry);
    if let Some(text) = &given.schema_mode {
        options.schema_mode = Some(text.parse::<SchemaMode>().map_err(word)?);
    }
    if let Some(text) = &given.compatibility {
        options.compatibility = text.parse::<Compatibility>().map_err(word)?;
    }
    if let Some(bytes) = given.max_message_bytes {
        let limit = MAX_FRAME_BYTES - FRAME_OVERHEAD_BYTES;
        options.max_message_bytes = u32::try_from(bytes)
            .ok()
            .filter(|bytes| *bytes <= limit)
            .ok_or_else(|| ErrorCode::InvalidArgument.with(format!("max_message_bytes is {bytes}; a frame takes at most {limit}")))?;
    }
    if options.visibility_timeout_ms == 0 || options.max_deliveries == 0 {
        return Err(ErrorCode::InvalidArgument.with("visibility_timeout and max_deliveries are at least 1"));
    }
    Ok(options)
}

/// Every option, as in force.
pub(crate) fn options_on_wire(options: &QueueOptions, schema_mode: SchemaMode) -> wire::QueueOptions {
    wire::QueueOptions {
        mode: Some(options.mode.to_string()),
        visibility_timeout_ms: Some(options.visibility_timeout_ms),
        max_deliveries: Some(options.max_deliveries),
        on_failure: Some(options.on_failure.to_string()),
        retry_backoff_first_ms: Some(options.retry_backoff_first_ms),
        retry_backoff_max_ms: Some(options.retry_backoff_max_ms),
        schema_mode: Some(options.schema_mode.unwrap_or(schema_mode).to_string()),
        on_invalid: Some(options.on_invalid.to_string()),
        compatibility: Some(options.compatibility.to_string()),
        max_messages: Some(options.max_messages),
        max_bytes: Some(options.max_bytes),
        max_age_ms: Some(options.max_age_ms),
        on_full: Some(options.on_full.to_string()),
        dedup_window_ms: Some(options.dedup_window_ms),
        dedup_max_keys: Some(options.dedup_max_keys),
        message_ttl_ms: Some(options.message_ttl_ms),
        on_expiry: Some(options.on_expiry.to_string()),
        delay_ms: Some(options.delay_ms),
        max_message_bytes: Some(u64::from(options.max_message_bytes)),
        group_expiry_ms: Some(options.group_expiry_ms),
        max_unsettled: Some(options.max_unsettled),
    }
}
