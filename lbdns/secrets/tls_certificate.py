"""TLS certificates: loads the certificate and key that ``[web]`` specifies, for the server and for its own clients.

The ``ssl`` module is imported on demand, because most servers and commands do not use TLS.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lbdns.config.web_section import WebConfig
from lbdns_shared.errors import ConfigError
from lbdns_shared.keys import read_private

if TYPE_CHECKING:
    import ssl

_DAY: Final = 86_400.0  # seconds
_SOON: Final = 14 * _DAY  # before its expiry: from then on, a warning asks to renew the certificate
_CERTIFICATE: Final = re.compile("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


def server_context(web: WebConfig) -> tuple[ssl.SSLContext | None, list[str]]:
    """Return two values: the server's TLS context (None if ``[web]`` specifies no certificate), and any warnings.

    Warnings concern a key file that other users can read, and a certificate that clients reject or will soon reject.
    Raises ConfigError if a file cannot be used. Error messages never contain any part of the key.
    """
    if web.tls_cert is None or web.tls_key is None:
        return None, []
    import ssl

    # An EC key is best: an RSA signature takes about 1 ms, which delays the queries to this process
    _, warnings = read_private(web.tls_key, "[web] tls_key", "it must contain the certificate's private key (PEM)")
    # Reads all certificates: for a damaged one, OpenSSL's own error does not say which file is damaged
    client, *_ = (_client_context(*each) for each in _certificates(web.tls_cert))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(web.tls_cert, web.tls_key, password=_no_password)
    except _EncryptedKeyError:
        what = "the key is encrypted; store it without a password, in a file that only the server's user can read"
        raise ConfigError(f"{web.tls_key}: [web] tls_key: {what}") from None
    except ssl.SSLError as error:
        raise ConfigError(_why_unusable(web.tls_cert, web.tls_key, error)) from None
    return context, warnings + _validity_warnings(web.tls_cert, context, client)


def client_context(certificate: Path) -> ssl.SSLContext:
    """Return a TLS context that accepts only the server with the first certificate in the file ``certificate``.

    The server's name is not compared: commands on the server's machine connect to the configured address, which
    certificates rarely contain. Raises ConfigError.
    """
    return _client_context(*_certificates(certificate)[0])


def _client_context(where: str, certificate: str) -> ssl.SSLContext:
    """Return a TLS context that accepts only the server with ``certificate`` (PEM)."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN  # the issuer need not be known
    try:
        context.load_verify_locations(cadata=certificate)
    except (ssl.SSLError, ValueError):
        raise ConfigError(f"{where} is damaged") from None
    return context


class _EncryptedKeyError(Exception):
    """Raised if a key file is encrypted."""


def _no_password() -> str:
    """Prevent OpenSSL from asking for a password on the terminal."""
    raise _EncryptedKeyError


def _certificates(path: Path) -> list[tuple[str, str]]:
    """Return the certificates in a PEM file, each with its location for error messages. The server's own certificate
    comes first.
    """
    try:
        text = path.read_text("ascii", "replace")
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the [web] tls_cert: {error.strerror}") from None
    found = _CERTIFICATE.findall(text)
    if not found:
        what = "the file contains no certificate; it must contain the certificates of the server and its issuers (PEM)"
        raise ConfigError(f"{path}: [web] tls_cert: {what}")
    return [(f"{path}: [web] tls_cert: certificate {number}", each) for number, each in enumerate(found, 1)]


def _why_unusable(certificate: Path, key: Path, error: ssl.SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return f"{key}: [web] tls_key: the key does not belong to the certificate in {certificate}"
    if error.reason == "NO_START_LINE" or error.reason is None:  # the certificates have been read already
        return f"{key}: [web] tls_key: the file contains no private key (PEM)"
    reason = error.reason.lower().replace("_", " ")
    return f"{certificate}: [web] tls_cert: OpenSSL cannot use the certificate with the key in {key}: {reason}"


def _validity_warnings(path: Path, server: ssl.SSLContext, client: ssl.SSLContext) -> list[str]:
    """Return a warning if clients already reject the certificate (for example, because it has expired) or will soon
    reject it.

    The function performs a TLS handshake in memory between ``server`` and ``client``. ``client`` must trust the
    certificate.
    """
    import ssl

    where = f"{path}: [web] tls_cert:"
    try:
        found = _peer_certificate(server, client)
    except ssl.SSLCertVerificationError as error:
        return [f"{where} clients will reject the certificate: {error.verify_message}"]
    except ssl.SSLError as error:
        return [f"{where} a TLS handshake with the certificate fails: {error.reason}"]
    left = ssl.cert_time_to_seconds(found["notAfter"]) - time.time()
    return [f"{where} the certificate expires in {left / _DAY:.0f} days; renew it"] if left < _SOON else []


def _peer_certificate(server: ssl.SSLContext, client: ssl.SSLContext) -> dict[str, Any]:
    """Return the certificate that a client receives in a handshake with a server. Raises ssl.SSLError."""
    import ssl

    upstream, downstream = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (client.wrap_bio(downstream, upstream), server.wrap_bio(upstream, downstream, server_side=True))
    waiting = list(ends)
    while waiting:
        for end in tuple(waiting):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(end)
    return ends[0].getpeercert() or {}
