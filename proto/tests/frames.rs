//! The frame codec under any bytes: it never panics, never wants more than the limit, and does not care where a stream is cut.

use bytes::BytesMut;
use proptest::prelude::*;
use qwerq_proto::frame::{FLAG_CORRELATED, FRAME_HEADER_BYTES};
use qwerq_proto::opcode::Opcode;
use qwerq_proto::{Frame, FrameDecoder, FrameError, encode_payload_frame};

const HELLO_LIMIT: u32 = 4_096;
const FRAME_LIMIT: u32 = 16 << 20;

fn header(opcode: u8, flags: u8, length: u32) -> BytesMut {
    let mut bytes = BytesMut::from(&[opcode, flags][..]);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes
}

/// Feeds `pieces` one after the other, as a connection does, and returns what came out.
fn decode_all(decoder: FrameDecoder, limit: u32, pieces: &[&[u8]]) -> Result<Vec<Frame>, FrameError> {
    let mut buffer = BytesMut::new();
    let mut frames = Vec::new();
    for piece in pieces {
        buffer.extend_from_slice(piece);
        while let Some(frame) = decoder.decode(&mut buffer)? {
            assert!(frame.payload.len() <= limit as usize);
            frames.push(frame);
        }
        assert!(decoder.missing(&buffer) <= FRAME_HEADER_BYTES + limit as usize);
    }
    Ok(frames)
}

#[test]
fn a_length_above_the_limit_is_refused_from_the_header_alone() {
    for limit in [HELLO_LIMIT, FRAME_LIMIT] {
        for length in [0xffff_ffff, 0x7fff_ffff, limit + 1] {
            for flags in [0, FLAG_CORRELATED, 0xff] {
                let mut buffer = header(0x01, flags, length);
                let refused = FrameDecoder::new(limit).decode(&mut buffer);
                assert_eq!(refused, Err(FrameError::TooLarge { opcode: 0x01, length, limit }));
                assert_eq!(buffer.len(), FRAME_HEADER_BYTES, "the buffer is unchanged");
                assert!(buffer.capacity() < 1_024, "nothing was reserved");
            }
        }
    }
}

#[test]
fn exactly_the_limit_works() {
    for limit in [HELLO_LIMIT, FRAME_LIMIT] {
        for request_id in [None, Some(7)] {
            let payload = vec![0xab; limit as usize - if request_id.is_some() { 4 } else { 0 }];
            let mut buffer = BytesMut::new();
            encode_payload_frame(&mut buffer, Opcode::Publish, request_id, &payload);
            let frame = FrameDecoder::new(limit).decode(&mut buffer).expect("within the limit").expect("whole");
            assert_eq!((frame.opcode, frame.request_id), (Opcode::Publish as u8, request_id));
            assert_eq!(frame.payload, payload);
            assert!(buffer.is_empty());
        }
    }
}

#[test]
fn the_limit_can_rise_between_two_frames() {
    let mut decoder = FrameDecoder::new(HELLO_LIMIT);
    let mut buffer = header(0x01, 0, HELLO_LIMIT + 1);
    buffer.resize(FRAME_HEADER_BYTES + HELLO_LIMIT as usize + 1, 0);
    assert!(decoder.decode(&mut buffer).is_err());
    decoder.set_limit(FRAME_LIMIT);
    assert!(decoder.decode(&mut buffer).expect("within the new limit").is_some());
}

#[test]
fn missing_counts_down_to_a_whole_frame() {
    let decoder = FrameDecoder::new(HELLO_LIMIT);
    let mut bytes = BytesMut::new();
    encode_payload_frame(&mut bytes, Opcode::Ack, Some(1), b"abc");
    for cut in 0..=bytes.len() {
        let missing = decoder.missing(&bytes[..cut]);
        let expected = if cut < FRAME_HEADER_BYTES { 0 } else { bytes.len() - cut };
        assert_eq!(missing, expected, "{cut} bytes are there");
    }
}

fn any_frame() -> impl Strategy<Value = (usize, Option<u32>, Vec<u8>)> {
    (0..Opcode::ALL.len(), any::<Option<u32>>(), prop::collection::vec(any::<u8>(), 0..64))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_never_panic_and_never_ask_for_more_than_the_limit(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        limit in 0_u32..300,
    ) {
        let _ = decode_all(FrameDecoder::new(limit), limit, &[&bytes]);
    }

    #[test]
    fn plausible_headers_never_panic(
        frames in prop::collection::vec((any::<u8>(), 0_u8..4, 0_u32..40, 0_usize..40), 0..6),
        limit in 0_u32..40,
    ) {
        let mut bytes = Vec::new();
        for (opcode, flags, length, payload) in frames {
            bytes.extend_from_slice(&header(opcode, flags, length));
            bytes.resize(bytes.len() + payload, opcode);
        }
        let _ = decode_all(FrameDecoder::new(limit), limit, &[&bytes]);
    }

    #[test]
    fn a_stream_gives_the_same_frames_wherever_it_is_cut(
        frames in prop::collection::vec(any_frame(), 0..6),
        mut cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let mut bytes = BytesMut::new();
        let mut sent = Vec::new();
        for (opcode, request_id, payload) in frames {
            let opcode = Opcode::ALL[opcode];
            encode_payload_frame(&mut bytes, opcode, request_id, &payload);
            sent.push(Frame { opcode: opcode as u8, request_id, payload: payload.into() });
        }
        let mut cuts: Vec<usize> = cuts.drain(..).map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
        let decoder = FrameDecoder::new(HELLO_LIMIT);
        prop_assert_eq!(decode_all(decoder, HELLO_LIMIT, &pieces), Ok(sent));
    }
}
