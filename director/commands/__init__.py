"""The sub-commands of `director` that belong to no other package. One subject a module, imported when used."""
