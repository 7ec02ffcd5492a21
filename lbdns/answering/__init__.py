"""Query answering: turns query bytes into response bytes without an event loop, sockets, clocks, randomness or files.

query -> responder -> fast path: answer_table, member_selection
                   -> slow path: query_reader, edns, answer_table, zone_lookup, message_writer, member_selection
"""
