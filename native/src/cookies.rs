//! Validates and issues DNS server cookies (RFC 7873, RFC 9018), with the same bytes as the Python version.

use std::net::IpAddr;

use crate::siphash::{siphash24, KEY};

pub const CLIENT: usize = 8; // bytes of a client cookie
pub const SERVER: usize = 16; // bytes of a server cookie as lbdns makes it (RFC 9018 section 4)
pub const BOTH: usize = CLIENT + SERVER;
const OLDEST: i64 = 3600; // s: how long a cookie is valid (RFC 9018 section 4.3)
const AHEAD: i64 = 300; // s: how far the clock of another server with the same secret may be ahead
const RENEW: i64 = 1800; // s: the age at which a client gets a new cookie

/// Issues and validates server cookies: new cookies use the first secret; validation accepts all secrets.
pub struct ServerCookies {
    secrets: Vec<[u8; KEY]>,
}

impl ServerCookies {
    /// `secrets` must not be empty.
    pub fn new(secrets: Vec<[u8; KEY]>) -> ServerCookies {
        ServerCookies { secrets }
    }

    /// Return the cookie for the response, and whether the query's cookie was valid.
    ///
    /// `cookie` must have at least 8 bytes, the length of a client cookie; `wall` is in Unix seconds.
    pub fn answer(&self, cookie: &[u8], address: IpAddr, wall: u64) -> ([u8; BOTH], bool) {
        let (client, server) = cookie.split_at(CLIENT);
        let stamp = wall as u32;
        let mut valid = false;
        if server.len() == SERVER && server[0] == 1 {
            let age =
                i64::from(stamp.wrapping_sub(u32::from_be_bytes([server[4], server[5], server[6], server[7]])) as i32);
            let in_time = (-AHEAD..=OLDEST).contains(&age);
            let known = |secret| hash(secret, client, &server[..8], address) == server[8..];
            valid = in_time && self.secrets.iter().any(known);
            if valid && age <= RENEW && known(&self.secrets[0]) {
                let mut same = [0; BOTH];
                same.copy_from_slice(cookie);
                return (same, true);
            }
        }
        let mut made = [0; BOTH];
        made[..CLIENT].copy_from_slice(client);
        made[CLIENT] = 1;
        made[CLIENT + 4..CLIENT + 8].copy_from_slice(&stamp.to_be_bytes());
        let hash = hash(&self.secrets[0], client, &made[CLIENT..CLIENT + 8], address);
        made[CLIENT + 8..].copy_from_slice(&hash);
        (made, valid)
    }
}

/// Return a server cookie's hash (RFC 9018 section 4.4); `begin` is its version, reserved bytes and timestamp.
fn hash(secret: &[u8; KEY], client: &[u8], begin: &[u8], address: IpAddr) -> [u8; 8] {
    let mut data = [0; CLIENT + 8 + 16];
    data[..CLIENT].copy_from_slice(client);
    data[CLIENT..CLIENT + 8].copy_from_slice(begin);
    let length = match address {
        IpAddr::V4(four) => {
            data[CLIENT + 8..CLIENT + 12].copy_from_slice(&four.octets());
            CLIENT + 12
        }
        IpAddr::V6(six) => {
            data[CLIENT + 8..].copy_from_slice(&six.octets());
            CLIENT + 24
        }
    };
    siphash24(secret, &data[..length]).to_le_bytes()
}
