//! Where something begins, as text: the forms that the command line's `--from` takes.

use qwerq_proto::wire::{StartAt, start_at::At};
use qwerq_proto::{ErrorCode, wire};

use crate::http::problem::Problem;
use crate::timestamp;

/// Reads `beginning`, `end`, `offset=N` or `time=2026-12-01T11:48:03Z`.
pub(crate) fn parse(text: &str) -> Result<wire::StartAt, Problem> {
    let refused = |text: String| Problem::new(ErrorCode::InvalidArgument, text).detail("field", "from");
    let at = match text.split_once('=') {
        None if text == "beginning" => At::Beginning(true),
        None if text == "end" => At::End(true),
        Some(("offset", number)) => At::Offset(number.parse().map_err(|_| refused(format!("from: {number:?} is no offset")))?),
        Some(("time", time)) => At::TimeMs(timestamp::parse_ms(time).map_err(|why| refused(format!("from: {why}")))?),
        _ => return Err(refused(format!("from: {text:?} is none of beginning, end, offset=N and time=2026-12-01T11:48:03Z"))),
    };
    Ok(StartAt { at: Some(at) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read_and_others_are_refused() {
        for (text, at) in [
            ("beginning", At::Beginning(true)),
            ("end", At::End(true)),
            ("offset=7", At::Offset(7)),
            ("time=1970-01-01T00:00:01Z", At::TimeMs(1_000)),
        ] {
            assert_eq!(parse(text).unwrap().at, Some(at));
        }
        for text in ["", "start", "offset=", "offset=-1", "time=now", "7", "beginning=1"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
