"""What a round costs: Segue beside its peers, against one endpoint."""
