//! SipHash-2-4 (Aumasson and Bernstein, 2012), the hash function that RFC 9018 prescribes for server cookies.

pub const KEY: usize = 16; // bytes

struct State([u64; 4]);

impl State {
    fn new(key: &[u8; KEY]) -> State {
        let k0 = word(&key[..8]);
        let k1 = word(&key[8..]);
        State([
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ])
    }

    fn round(&mut self) {
        let v = &mut self.0;
        v[0] = v[0].wrapping_add(v[1]);
        v[1] = v[1].rotate_left(13) ^ v[0];
        v[0] = v[0].rotate_left(32);
        v[2] = v[2].wrapping_add(v[3]);
        v[3] = v[3].rotate_left(16) ^ v[2];
        v[0] = v[0].wrapping_add(v[3]);
        v[3] = v[3].rotate_left(21) ^ v[0];
        v[2] = v[2].wrapping_add(v[1]);
        v[1] = v[1].rotate_left(17) ^ v[2];
        v[2] = v[2].rotate_left(32);
    }

    fn take(&mut self, word: u64) {
        self.0[3] ^= word;
        self.round();
        self.round();
        self.0[0] ^= word;
    }

    fn end(mut self) -> u64 {
        self.0[2] ^= 0xff;
        for _ in 0..4 {
            self.round();
        }
        self.0.iter().fold(0, |all, part| all ^ part)
    }
}

/// Return up to 8 bytes as a number, least significant byte first.
fn word(bytes: &[u8]) -> u64 {
    let mut whole = [0; 8];
    whole[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(whole)
}

/// Return the hash of `data` under `key`. A cookie contains the hash with the least significant byte first.
pub fn siphash24(key: &[u8; KEY], data: &[u8]) -> u64 {
    let mut state = State::new(key);
    let chunks = data.chunks_exact(8);
    let rest = word(chunks.remainder());
    for chunk in chunks {
        state.take(word(chunk));
    }
    state.take(rest | (data.len() as u64) << 56);
    state.end()
}
