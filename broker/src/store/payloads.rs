//! Where payloads come from: [`Payloads`] is the journal as the store sees it, [`SpanReader`]
//! reads neighbours in one call.
//!
//! The store does not know what a segment is; it asks for bytes by position.

use std::io;

use super::StoreError;

/// Where a payload lies in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Location {
    /// The segment's number.
    pub segment: u32,
    /// Bytes from the segment's start.
    pub offset: u32,
    /// Length in bytes; 0 marks a number without a message.
    pub len: u32,
}

impl Location {
    /// A number without a message.
    pub const GAP: Self = Self { segment: 0, offset: 0, len: 0 };

    fn end(self) -> u64 {
        u64::from(self.offset) + u64::from(self.len)
    }
}

/// Reads journal bytes. A range may hold more than one payload, and what lies between them.
pub trait Payloads {
    /// Replaces the contents of `out` by the `location.len` bytes at `location`, which are in
    /// one segment.
    ///
    /// # Errors
    /// When the segment is gone, shorter, or cannot be read.
    fn read(&self, location: Location, out: &mut Vec<u8>) -> io::Result<()>;
}

/// Bytes read at once.
const SPAN_BYTES: u64 = 256 * 1024;

/// Foreign bytes between two payloads that are cheaper to read than a second call.
const HOLE_BYTES: u64 = 4096;

/// Reads the payloads of a run of locations with few calls.
pub(super) struct SpanReader<'a> {
    payloads: &'a dyn Payloads,
    /// What `bytes` holds.
    span: Location,
    bytes: Vec<u8>,
}

impl<'a> SpanReader<'a> {
    pub(super) fn new(payloads: &'a dyn Payloads) -> Self {
        Self { payloads, span: Location::GAP, bytes: Vec::new() }
    }

    /// The first payload of `upcoming`, which holds the locations that will be asked for next,
    /// in order.
    pub(super) fn read(&mut self, upcoming: &[Location]) -> Result<&[u8], StoreError> {
        let wanted = upcoming.first().copied().unwrap_or(Location::GAP);
        if !self.holds(wanted) {
            let span = span_of(upcoming);
            let expected = usize::try_from(span.len).expect("usize holds a u32");
            let read = self.payloads.read(span, &mut self.bytes).and_then(|()| match self.bytes.len() {
                bytes if bytes == expected => Ok(()),
                bytes => Err(io::Error::other(format!("{bytes} bytes came instead"))),
            });
            read.map_err(|source| StoreError::Payload { location: span, source })?;
            self.span = span;
        }
        let start = usize::try_from(wanted.offset - self.span.offset).expect("usize holds a u32");
        let len = usize::try_from(wanted.len).expect("usize holds a u32");
        Ok(&self.bytes[start..start + len])
    }

    fn holds(&self, wanted: Location) -> bool {
        wanted.segment == self.span.segment && wanted.offset >= self.span.offset && wanted.end() <= self.span.end()
    }
}

/// The range to read for the first location and as many of the next as lie close behind it.
fn span_of(upcoming: &[Location]) -> Location {
    let mut locations = upcoming.iter().copied().filter(|location| location.len > 0);
    let Some(first) = locations.next() else {
        return Location::GAP;
    };
    let start = u64::from(first.offset);
    let mut end = first.end();
    for next in locations {
        let near = next.segment == first.segment
            && u64::from(next.offset) >= end
            && u64::from(next.offset) - end <= HOLE_BYTES
            && next.end() - start <= SPAN_BYTES;
        if !near {
            break;
        }
        end = next.end();
    }
    let len = u32::try_from(end - start).expect("a span is one payload or below the span limit");
    Location { len, ..first }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    struct Recorder(RefCell<Vec<Location>>);

    impl Payloads for Recorder {
        fn read(&self, location: Location, out: &mut Vec<u8>) -> io::Result<()> {
            self.0.borrow_mut().push(location);
            out.clear();
            out.extend((location.offset..).take(location.len as usize).map(|at| at.to_le_bytes()[0]));
            Ok(())
        }
    }

    fn location(segment: u32, offset: u32, len: u32) -> Location {
        Location { segment, offset, len }
    }

    #[test]
    fn neighbours_are_read_in_one_call() {
        let big = u32::try_from(SPAN_BYTES).unwrap();
        for (name, locations, calls) in [
            ("one after the other", vec![location(1, 100, 10), location(1, 150, 10)], 1),
            ("across a gap", vec![location(1, 100, 10), Location::GAP, location(1, 150, 10)], 1),
            ("too far", vec![location(1, 100, 10), location(1, 5000, 10)], 2),
            ("backwards", vec![location(1, 100, 10), location(1, 50, 10)], 2),
            ("another segment", vec![location(1, 100, 10), location(2, 110, 10)], 2),
            ("larger than a span", vec![location(1, 0, big + 1), location(1, big + 1, 10)], 2),
        ] {
            let recorder = Recorder(RefCell::default());
            let mut reader = SpanReader::new(&recorder);
            for (at, wanted) in locations.iter().enumerate().filter(|(_, at)| at.len > 0) {
                let bytes = reader.read(&locations[at..]).unwrap();
                assert_eq!(bytes.len(), wanted.len as usize, "{name}");
                assert_eq!(bytes[0], wanted.offset.to_le_bytes()[0], "{name}");
            }
            assert_eq!(recorder.0.borrow().len(), calls, "{name}");
        }
    }
}
