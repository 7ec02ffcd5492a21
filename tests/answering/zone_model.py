"""A second implementation of zone lookup, with which tests compare the server's responses. It works on text only.

The lookup descends from the zone's apex, label by label, as described in RFC 1034, section 4.3.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import dns.exception
import dns.name

#: type -> rdatas, as text with absolute names; TTLs are all alike
Records = Mapping[str, list[str]]
Line = tuple[str, str, str]


@dataclass
class Expected:
    rcode: str = "NOERROR"
    authoritative: bool = True
    answer: list[Line] = field(default_factory=list)
    authority: list[Line] = field(default_factory=list)
    additional: list[Line] = field(default_factory=list)
    dnssec: list[Line] = field(default_factory=list)


class ModelZone:
    def __init__(self, origin: str, nodes: Mapping[str, Records], soa: str) -> None:
        self.origin = dns.name.from_text(origin)
        self.nodes = {dns.name.from_text(owner): records for owner, records in nodes.items()}
        self.soa = soa

    def exists(self, name: dns.name.Name) -> bool:
        return any(owner.is_subdomain(name) for owner in self.nodes)

    def answer(self, qname: str, qtype: str) -> Expected:
        result = Expected()
        name = dns.name.from_text(qname)
        been: list[dns.name.Name] = []
        while name.is_subdomain(self.origin) and name not in been:
            been.append(name)
            before = list(result.answer)
            target = self._one_step(name, qtype, result, first=len(been) == 1)
            if target is not None and len(been) == 17:  # 16 links are followed for one question
                result.answer = before
                break
            if target is None:
                break
            name = target
        return result

    def _one_step(self, name: dns.name.Name, qtype: str, result: Expected, first: bool) -> dns.name.Name | None:
        """Add the zone's response for this name to ``result``. If the name is an alias, return its target."""
        for here in self._downwards(name):
            records = self.nodes.get(here, {})
            asks_parent = here == name and qtype == "DS"
            if here != self.origin and "NS" in records and not asks_parent:
                self._refer(here, records, result, first)
                return None
            if here != name and "DNAME" in records:
                renamed = self._rename(name, here, records["DNAME"][0], result)
                return None if qtype == "CNAME" else renamed
            if not self.exists(here):
                star = dns.name.Name((b"*", *here.parent().labels))
                if not self.exists(star):
                    result.rcode = "NXDOMAIN"
                    self._deny(result)
                    return None
                return self._read(name, self.nodes.get(star, {}), qtype, result)
        return self._read(name, self.nodes.get(name, {}), qtype, result)

    def _downwards(self, name: dns.name.Name) -> Iterator[dns.name.Name]:
        for depth in range(len(self.origin), len(name) + 1):
            yield name.split(depth)[1]

    def _refer(self, cut: dns.name.Name, records: Records, result: Expected, first: bool) -> None:
        result.authoritative = not first
        result.authority += [(str(cut), "NS", rdata) for rdata in records["NS"]]
        result.dnssec += [(str(cut), "DS", rdata) for rdata in records.get("DS", [])]
        self._add_addresses("NS", records, result)

    def _add_addresses(self, qtype: str, records: Records, result: Expected) -> None:
        """Add the addresses of the hosts that the records name. Only name servers have glue (data below a cut)."""
        for target in {dns.name.from_text(rdata.split()[-1]) for rdata in records[qtype]}:
            if not target.is_subdomain(self.origin):
                continue
            is_cut_off = any("NS" in self.nodes.get(here, {}) for here in list(self._downwards(target))[1:])
            for rtype in ("A", "AAAA"):
                if is_cut_off:
                    rdatas = self.nodes.get(target, {}).get(rtype, []) if qtype == "NS" else []
                    found = [(str(target), rtype, rdata) for rdata in rdatas]
                else:
                    step = Expected()
                    found = [] if self._one_step(target, rtype, step, first=True) else step.answer
                result.additional += found

    def _rename(self, name: dns.name.Name, owner: dns.name.Name, target: str, result: Expected) -> dns.name.Name | None:
        if (str(owner), "DNAME", target) not in result.answer:  # an RRset is in a message once (RFC 2181 section 5.2)
            result.answer.append((str(owner), "DNAME", target))
        try:
            renamed = name.relativize(owner).derelativize(dns.name.from_text(target))
        except dns.exception.DNSException:
            result.rcode = "YXDOMAIN"
            return None
        result.answer.append((str(name), "CNAME", str(renamed)))
        return renamed

    def _read(self, name: dns.name.Name, records: Records, qtype: str, result: Expected) -> dns.name.Name | None:
        if qtype in records:
            result.answer += [(str(name), qtype, rdata) for rdata in records[qtype]]
            if qtype in ("NS", "MX", "SRV"):
                self._add_addresses(qtype, records, result)
            return None
        if "CNAME" in records:
            target = records["CNAME"][0]
            result.answer.append((str(name), "CNAME", target))
            return dns.name.from_text(target)
        self._deny(result)
        return None

    def _deny(self, result: Expected) -> None:
        result.authority.append((str(self.origin), "SOA", self.soa))
