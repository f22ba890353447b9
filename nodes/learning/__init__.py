"""What learners share, fused ones among them: updates in one compiled program, and what is measured of them."""
