//! What the machine itself can do, measured in the same run as the broker: appends with fdatasync, and a bare TCP ping-pong.
//!
//! The appends go over a file that was written before, as the journal's recycled segments were: extending a file costs the file
//! system a second flush. Nothing here knows the broker.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::core::Cores;
use super::latency::Latency;

/// Messages in one append, as the report states them.
pub(super) const BATCHES: [usize; 4] = [1, 16, 256, 1_024];

/// Bytes of the recycled file.
const FILE_BYTES: u64 = 64 << 20;

/// One batch size's appends: each is one write and one fdatasync.
pub(super) struct Appends {
    pub(super) batch: usize,
    pub(super) per_second: f64,
    /// Of one append with its fdatasync.
    pub(super) latency: Latency,
}

/// A recycled file to append to, removed with the value.
pub(super) struct Probe {
    file: File,
    path: std::path::PathBuf,
    offset: u64,
    payload_bytes: usize,
}

impl Probe {
    /// Makes the file in `directory`, which should be on the broker's disk.
    pub(super) fn new(directory: &Path, payload_bytes: usize) -> io::Result<Probe> {
        let path = directory.join(format!("qwerq-bench-probe-{}", std::process::id()));
        let file = File::options().create(true).truncate(true).read(true).write(true).open(&path)?;
        let block = vec![0x5a; 1 << 20];
        for offset in (0..FILE_BYTES).step_by(block.len()) {
            file.write_all_at(&block, offset)?;
        }
        file.sync_all()?;
        Ok(Probe { file, path, offset: 0, payload_bytes })
    }

    /// Appends batches of that many messages for about `time`.
    pub(super) fn appends(&mut self, batch: usize, time: Duration) -> io::Result<Appends> {
        let mut block = vec![0; batch * self.payload_bytes];
        let mut latency = Latency::new();
        let started = Instant::now();
        let mut last = started;
        let mut count = 0_u32;
        while last - started < time {
            // Not the same bytes twice, in case a disk looks.
            block[0] = count.to_le_bytes()[0];
            self.append(&block)?;
            let now = Instant::now();
            latency.record(now - last);
            last = now;
            count += 1;
        }
        let messages = f64::from(count) * batch as f64;
        Ok(Appends { batch, per_second: messages / (last - started).as_secs_f64(), latency })
    }

    fn append(&mut self, block: &[u8]) -> io::Result<()> {
        let length = u64::try_from(block.len()).expect("a block fits in memory");
        if self.offset + length > FILE_BYTES {
            self.offset = 0;
        }
        self.file.write_all_at(block, self.offset)?;
        self.offset += length;
        self.file.sync_data()
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        // What stays behind is one file of 64 MiB whose name says what it is.
        let _ = fs::remove_file(&self.path);
    }
}

/// Round trips of `payload_bytes` between the bench's core and the broker's, one at a time.
pub(super) fn ping_pong(cores: Cores, payload_bytes: usize, time: Duration) -> io::Result<Latency> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let echo = cores.on_the_brokers(|| {
        std::thread::spawn(move || -> io::Result<()> {
            let (mut stream, _) = listener.accept()?;
            stream.set_nodelay(true)?;
            let mut buffer = vec![0; payload_bytes];
            while stream.read_exact(&mut buffer).is_ok() {
                stream.write_all(&buffer)?;
            }
            Ok(())
        })
    });
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; payload_bytes];
    let mut latency = Latency::new();
    let started = Instant::now();
    let mut last = started;
    while last - started < time {
        stream.write_all(&buffer)?;
        stream.read_exact(&mut buffer)?;
        let now = Instant::now();
        latency.record(now - last);
        last = now;
    }
    drop(stream);
    echo.join().map_err(|_| io::Error::other("the echo thread panicked"))??;
    Ok(latency)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_wraps_around_and_leaves_nothing_behind() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut probe = Probe::new(directory.path(), 256).expect("a probe");
        probe.offset = FILE_BYTES - 100;
        probe.append(&[1; 256]).expect("an append");
        assert_eq!(probe.offset, 256);
        let appends = probe.appends(16, Duration::ZERO).expect("appends");
        assert_eq!(appends.batch, 16);
        drop(probe);
        assert_eq!(fs::read_dir(directory.path()).expect("a directory").count(), 0);
    }

    #[test]
    fn the_ping_pong_measures_something() {
        let latency = ping_pong(Cores::Shared, 16, Duration::from_millis(5)).expect("a ping-pong");
        assert!(latency.count() > 0);
        assert!(latency.p50_us() > 0.0);
    }
}
