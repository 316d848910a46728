"""The certificate that webhooks are served with: made by the operator itself, or found in files.

`plan` decides what the Secret should hold, without I/O; `own` reads and writes; `files` follows a folder that
somebody else fills. Private keys are never logged and never leave the Secret, the folder and memory.
"""
