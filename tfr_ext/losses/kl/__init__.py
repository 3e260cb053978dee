"""The KL losses over judgment distributions (Purpura et al.)."""
