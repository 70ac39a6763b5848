"""Agentic Intent Protocol 0.1: passages for signed partners within declared domains and limits, with receipts."""
