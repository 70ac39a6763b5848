"""From an `Ask` to items, actions and summaries.

Use `answer`, with the `AskService` of the process, for a whole response, or `find_items` and `complete_answer` to
stream it. Nothing here knows HTTP or MCP.
"""
