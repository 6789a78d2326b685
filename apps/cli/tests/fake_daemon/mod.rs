//! Something on loopback that answers as a test wants, where `quartier` expects a quartierd.
#![allow(dead_code)] // Each test file uses a part.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Answers until it is dropped.
pub struct FakeDaemon {
    pub at: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl FakeDaemon {
    /// Writes what it is given for a path.
    pub fn answering(answer: impl Fn(&str) -> Vec<u8> + Send + 'static) -> Self {
        Self::writing(move |path, to| _ = to.write_all(&answer(path)))
    }

    /// Writes as it likes.
    pub fn writing(answer: impl Fn(&str, &mut TcpStream) + Send + 'static) -> Self {
        Self::writing_at((Ipv4Addr::LOCALHOST, 0).into(), answer)
    }

    /// The same where there was one before.
    pub fn writing_at(
        at: SocketAddr,
        answer: impl Fn(&str, &mut TcpStream) + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind(at).unwrap();
        let at = listener.local_addr().unwrap();
        let (asked, is_over) = <(Arc<Mutex<Vec<String>>>, Arc<AtomicBool>)>::default();
        let (log, stop) = (Arc::clone(&asked), Arc::clone(&is_over));
        let serve = move || {
            for stream in listener.incoming() {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                let mut stream = stream.unwrap();
                let Some(head) = head(&stream) else { continue };
                let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                log.lock().unwrap().push(head);
                answer(&path, &mut stream);
            }
        };
        Self { at, asked, is_over, thread: Some(std::thread::spawn(serve)) }
    }

    /// The heads of all that was asked.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for FakeDaemon {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.at);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn head(stream: &TcpStream) -> Option<String> {
    let mut head = String::new();
    let mut reader = BufReader::new(stream);
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    Some(head)
}

/// All well, and this.
pub fn ok(body: &str) -> Vec<u8> {
    with_status("200 OK", body)
}

pub fn with_status(status: &str, body: &str) -> Vec<u8> {
    let len = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n{body}").into()
}
