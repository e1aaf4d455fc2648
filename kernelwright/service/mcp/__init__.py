"""The MCP server: what a coding agent can ask of Kernelwright, as tools."""
