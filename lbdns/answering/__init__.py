"""Query answering: turns query bytes into response bytes, without event loop, socket, clock, randomness or file.

query -> responder -> fast path: answer_table, member_selection
                   -> slow path: query_reader, edns, answer_table, zone_lookup, message_writer, member_selection
"""
