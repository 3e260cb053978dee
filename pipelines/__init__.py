"""The commands of tfr_ext: flags in, files out."""
