"""The figures on softmax against linear attention."""
