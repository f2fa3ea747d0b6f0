//! [`Link`]: the way from one node to another, which can be cut and mended.
//!
//! A link that is cut swallows what comes, as a broken network does, rather than refusing it.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// The way to a node. Dropping it leaves its threads to the end of the test.
#[derive(Clone)]
pub(crate) struct Link {
    /// Where the sending node connects to.
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    target: Option<SocketAddr>,
    cut: bool,
    streams: Vec<TcpStream>,
}

impl Link {
    pub(crate) fn new() -> Link {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("a port");
        let state = Arc::new(Mutex::new(State::default()));
        let link = Link { address, state };
        let accepting = link.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let link = accepting.clone();
                thread::spawn(move || link.forward(stream));
            }
        });
        link
    }

    /// Where it leads to.
    pub(crate) fn lead_to(&self, target: SocketAddr) {
        self.state.lock().expect("no panic").target = Some(target);
    }

    /// From now on nothing passes.
    pub(crate) fn cut(&self) {
        self.state.lock().expect("no panic").cut = true;
    }

    /// From now on new connections pass; the old ones are gone.
    pub(crate) fn mend(&self) {
        let mut state = self.state.lock().expect("no panic");
        state.cut = false;
        for stream in state.streams.drain(..) {
            // It may be gone already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn is_cut(&self) -> bool {
        self.state.lock().expect("no panic").cut
    }

    fn forward(&self, near: TcpStream) {
        let target = {
            let mut state = self.state.lock().expect("no panic");
            state.streams.push(near.try_clone().expect("a handle"));
            state.target.filter(|_| !state.cut)
        };
        let Some(far) = target.and_then(|target| TcpStream::connect(target).ok()) else {
            if self.is_cut() {
                // Nobody answers, until the link is mended and this connection ends.
                drop(std::io::copy(&mut &near, &mut std::io::sink()));
            }
            return;
        };
        for stream in [&near, &far] {
            stream.set_nodelay(true).expect("TCP");
        }
        self.state.lock().expect("no panic").streams.push(far.try_clone().expect("a handle"));
        let (near_reads, far_writes) = (near.try_clone().expect("a handle"), far.try_clone().expect("a handle"));
        let link = self.clone();
        let there = thread::spawn(move || link.pump(near_reads, far_writes));
        self.pump(far, near);
        // A panic in there has been printed.
        let _ = there.join();
    }

    fn pump(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(read @ 1..) = from.read(&mut bytes) {
            if !self.is_cut() && to.write_all(&bytes[..read]).is_err() {
                break;
            }
        }
        // The other side may be gone already.
        let _ = to.shutdown(Shutdown::Both);
    }
}
